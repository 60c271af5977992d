//! Traces scripts in a process of their own, which may be stopped: Starlark's limits do not hold inside a single native
//! call, and a script must not hang, exhaust or abort the program.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::memory_limit;
use crate::script::{Recording, SOURCE_LIMIT, Script, ScriptError, TraceSizes, Tracer, trace_here};

/// The hidden command that the process is started with.
pub const COMMAND: &str = "trace-attention";

/// Real scripts take some milliseconds.
const TIME_LIMIT: Duration = Duration::from_millis(1500);
const MEMORY_LIMIT: usize = 256 << 20;
/// What a process may answer.
const ANSWER_LIMIT: u64 = 64 << 20;
const POLL: Duration = Duration::from_millis(2);

#[derive(Serialize, Deserialize)]
struct Request {
    script: Script,
    sizes: TraceSizes,
}

/// Traces in a process that is started for each trace.
#[derive(Clone, Copy, Debug)]
struct Sandbox;

/// The tracer for scripts of users.
pub fn tracer() -> Arc<dyn Tracer> {
    Arc::new(Sandbox)
}

impl Tracer for Sandbox {
    fn trace(&self, script: &Script, sizes: &TraceSizes) -> Result<Vec<Recording>, ScriptError> {
        let failed = |reason: String| ScriptError::whole(&script.file, reason);
        let request = Request { script: script.clone(), sizes: sizes.clone() };
        let request = serde_json::to_vec(&request).map_err(|error| failed(format!("cannot be sent: {error}")))?;
        let ended = converse(&request).map_err(|error| failed(format!("no process could trace it: {error}")))?;
        let Some(status) = ended.status else {
            let seconds = TIME_LIMIT.as_secs_f64();
            return Err(failed(format!(
                "it was stopped after {seconds} s, a real one takes milliseconds: does it loop?"
            )));
        };
        match serde_json::from_slice::<Result<Vec<Recording>, ScriptError>>(&ended.answer) {
            Ok(answer) if status.success() => answer,
            _ => Err(failed(cause_of_death(status, &ended.complaint, ended.answer.len()))),
        }
    }
}

/// How a process ended.
struct Ended {
    /// `None` where it was stopped.
    status: Option<ExitStatus>,
    answer: Vec<u8>,
    complaint: String,
}

fn converse(request: &[u8]) -> std::io::Result<Ended> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + TIME_LIMIT;
    let answer = collect(child.stdout.take());
    let complaint = collect(child.stderr.take());
    if let Some(mut input) = child.stdin.take() {
        // A process that dies early says why itself.
        let _ = input.write_all(request);
    }
    let status = wait_until(&mut child, deadline)?;
    let gathered = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
    let (answer, complaint) = (gathered(answer), gathered(complaint));
    Ok(Ended { status, answer, complaint: String::from_utf8_lossy(&complaint).into_owned() })
}

/// Reads a pipe in a thread, so that neither side waits for the other.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error is what there is.
            let _ = pipe.take(ANSWER_LIMIT).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// `None` where the process had to be stopped.
fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn cause_of_death(status: ExitStatus, complaint: &str, answered: usize) -> String {
    if complaint.contains("memory allocation of") || complaint.contains("out of memory") {
        return format!("it was stopped: it needs more than the {} MiB that a script may have", MEMORY_LIMIT >> 20);
    }
    if complaint.contains("overflowed its stack") {
        return "it was stopped: it is nested too deeply".into();
    }
    if answered as u64 >= ANSWER_LIMIT {
        return "it was stopped: it calls too many ops".into();
    }
    let first = complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    format!("tracing it failed ({status}): {first}")
}

/// What the process does: reads a request, traces, writes the answer.
///
/// # Errors
/// A request that is none, or an answer that nobody takes.
pub fn run() -> anyhow::Result<()> {
    let mut request = Vec::new();
    // A source may double when it is written as JSON, and there are the sizes beside it.
    std::io::stdin().take(8 * SOURCE_LIMIT as u64).read_to_end(&mut request)?;
    memory_limit::limit(MEMORY_LIMIT);
    let request: Request = serde_json::from_slice(&request)?;
    let answer = trace_here(&request.script, &request.sizes);
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    out.flush()?;
    Ok(())
}
