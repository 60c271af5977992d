//! Files made to break their reader: each is refused in one line that names the file and says what would be right,
//! before a device is opened and before memory is taken on the file's word.

mod configuration;
mod settings;
mod state;
mod text;
mod tokenizer;
mod weights;

use std::fs::File;
use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::room::{NAMES, Room, TOY, copy_directory, trained};

/// Kibibytes of address space that the program gets: what it takes to start, and 100 MiB. (The limit is on addresses,
/// not on pages in use, since a system enforces only that one; a driver would need far more, so that a case that got as
/// far as opening an adapter fails as well.)
const ADDRESS_LIMIT: u64 = STARTED_KIBIBYTES + 100 * 1024;
const STARTED_KIBIBYTES: u64 = 16 * 1024;

/// A program that reads for ever is ended after this.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a run under the limit ended with, and what it took.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    seconds: f64,
    /// The most kibibytes in memory, as seen a moment before the end.
    kibibytes: u64,
}

/// Runs the program with the words of `line` under the limit on its memory.
pub fn run_limited(room: &Room, line: &str) -> Ended {
    let program = room.command();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &ADDRESS_LIMIT.to_string()]);
    limited.arg(program.get_program()).args(line.split_whitespace()).current_dir(room.path(""));
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    // Files, since a pipe that nobody reads would hold the program up.
    let outputs = Room::new();
    let output = |name: &str| Stdio::from(File::create(outputs.path(name)).unwrap());
    let began = Instant::now();
    let mut child = limited.stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr")).spawn().unwrap();
    let mut kibibytes = 0;
    let status = loop {
        kibibytes = peak_kibibytes(child.id()).unwrap_or(kibibytes);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let seconds = began.elapsed().as_secs_f64();
    Ended { status, stdout: outputs.text("stdout"), stderr: outputs.text("stderr"), seconds, kibibytes }
}

/// The most memory a process has had so far.
fn peak_kibibytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Demands that the program refuses what lies in the room; see [`fault`].
#[track_caller]
pub fn refused(room: &Room, case: &str, line: &str, expected: &str) {
    none(fault(room, case, line, expected));
}

/// Demands that a table found no faults.
#[track_caller]
pub fn none(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with how the program refuses what lies in the room, if it is not this: exit code 2, nothing on
/// standard output (no device was opened), and on standard error one line of bounded length that begins as expected
/// and holds nothing that a terminal obeys.
#[must_use]
pub fn fault(room: &Room, case: &str, line: &str, expected: &str) -> Option<String> {
    let ended = run_limited(room, line);
    report(case, &ended);
    let Ended { status, stdout, stderr, .. } = &ended;
    let wrong = if status.code() != Some(2) {
        format!("it ended with {status}")
    } else if !stdout.is_empty() {
        format!("it printed {stdout:?}")
    } else if stderr.len() > 5000 || !stderr.ends_with('\n') || stderr.trim_end().contains(char::is_control) {
        format!("its {} bytes are not one line for a terminal", stderr.len())
    } else if !stderr.starts_with(&format!("error: {expected}")) {
        format!("expected: {expected}")
    } else {
        return None;
    };
    let start: String = stderr.chars().take(300).collect();
    Some(format!("{case}: {wrong}\n    {start:?}"))
}

/// A line of what a refusal took, for scripts/hostile.sh; times are told and not judged.
fn report(case: &str, ended: &Ended) {
    let Some(path) = std::env::var_os("HEADLIGHT_HOSTILE_REPORT") else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    let line = format!("{:.3}\t{}\t{case}\n", ended.seconds, ended.kibibytes);
    file.write_all(line.as_bytes()).unwrap();
}

/// A model directory with one file replaced.
pub fn damaged_model(file: &str, contents: impl AsRef<[u8]>) -> Room {
    let room = Room::new();
    copy_directory(&trained().join("best"), &room.path("model"));
    room.write(&format!("model/{file}"), contents);
    room
}

/// A run directory with one file replaced.
pub fn damaged_run(file: &str, contents: impl AsRef<[u8]>) -> Room {
    let room = Room::new();
    copy_directory(trained(), &room.path("run"));
    room.write(&format!("run/{file}"), contents);
    room
}

pub fn whole(file: &str) -> Vec<u8> {
    std::fs::read(trained().join(file)).unwrap()
}

/// The toy's weights with the tensor of this name changed by `edit`, which gets its bytes.
pub fn edited_weights(file: &str, name: &str, edit: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = whole(file);
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let offset = |index: usize| 8 + length + header[name]["data_offsets"][index].as_u64().unwrap() as usize;
    edit(&mut bytes[offset(0)..offset(1)]);
    bytes
}

#[test]
fn the_limit_on_memory_bites() {
    let room = Room::new();
    // Valid text that takes more than there is.
    room.write("zeros.txt", vec![0; 200 << 20]);
    let ended = run_limited(&room, &format!("train {TOY} --data zeros.txt --out run"));
    assert!(!ended.status.success(), "{}", ended.stdout);
    assert!(ended.stderr.contains("memory"), "{}", ended.stderr);
    // And what is fine passes under it, so that the limit is not what refuses the rest.
    let ended = run_limited(&room, &format!("train {TOY} {NAMES} --out run"));
    assert!(ended.status.success(), "{}", ended.stderr);
}
