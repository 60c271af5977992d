//! A directory of a test's own, with the program run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A model that trains in moments on the CPU executor: flags of `headlight train` besides `--data`.
pub const TOY: &str = "--device cpu --layers 1 --heads 1 --width 8 --context-length 8 --batch 2 --steps 6 --warm-up 2 \
                       --log-every 1 --evaluate-every 3 --sample-every 3 --sample-length 10 --checkpoint-every 3";

/// The flags of [`TOY`] for another device than the CPU executor.
pub fn toy_on(device: &str) -> String {
    TOY.replace("--device cpu", &format!("--device {device}"))
}

/// What a run can be tested on: the CPU executor, and the adapter where there is one.
///
/// # Panics
/// With `HEADLIGHT_REQUIRE_GPU=1` and no adapter: continuous integration must not pass by leaving it out.
pub fn devices() -> &'static [&'static str] {
    static ADAPTER: OnceLock<bool> = OnceLock::new();
    let adapter = *ADAPTER.get_or_init(|| {
        let info = Room::new().run("info").fine();
        let found = !info.lines().any(|line| line.starts_with("--device auto takes the CPU executor"));
        let required = std::env::var("HEADLIGHT_REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(found || !required, "HEADLIGHT_REQUIRE_GPU=1 and no adapter: {info}");
        if !found {
            // Not by a macro: the test harness keeps what those print in a test that passes.
            let _ = writeln!(std::io::stderr(), "\nNOT TESTED on an adapter: there is none.\n");
        }
        found
    });
    if adapter { &["cpu", "gpu"] } else { &["cpu"] }
}

/// A small text that the program makes itself.
pub const NAMES: &str = "--data builtin:names --corpus-bytes 3000";

/// How a run of the program ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<std::process::Output> for Ended {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// The one line of error of a run that was refused or failed: exit code 2, and nothing else on standard error.
    #[track_caller]
    pub fn error(&self) -> &str {
        assert_eq!(self.code, Some(2), "{}{}", self.stdout, self.stderr);
        let error = self.stderr.strip_suffix('\n').and_then(|line| line.strip_prefix("error: "));
        let error = error.unwrap_or_else(|| panic!("no line of error: {}", self.stderr));
        assert!(!error.contains('\n'), "more than one line: {error}");
        error
    }

    /// Standard output of a run that went well.
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

/// An empty directory to run the program in.
pub struct Room {
    directory: TempDir,
}

impl Room {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// Everything that lies in the room, sorted.
    pub fn names(&self, under: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(under))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The program in this room, not started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("headlight"));
        // Without a runtime directory a part of Mesa complains on standard error about displays.
        command.env("XDG_RUNTIME_DIR", self.directory.path()).env("COLUMNS", "100");
        command.env_remove("HEADLIGHT_LOG").env_remove("HEADLIGHT_FAULT").env("RUST_BACKTRACE", "1");
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program with the words of `line`, then `more` as they are.
    pub fn run_with(&self, line: &str, more: &[&str]) -> Ended {
        Ended::of(self.command().args(line.split_whitespace()).args(more))
    }

    /// Runs the program with faults planted in it.
    pub fn run_with_fault(&self, fault: &str, line: &str) -> Ended {
        Ended::of(self.command().args(line.split_whitespace()).env("HEADLIGHT_FAULT", fault))
    }

    /// Runs a line, interrupts it once a file has more than so many lines, and waits for its end.
    #[cfg(unix)]
    pub fn interrupt(&self, line: &str, file: &str, lines: usize) -> Ended {
        use std::time::{Duration, Instant};

        let mut command = self.command();
        let child =
            command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let begun = || std::fs::read_to_string(self.path(file)).is_ok_and(|text| text.lines().count() > lines);
        while !begun() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        Ended::from(child.wait_with_output().unwrap())
    }

    pub fn run(&self, line: &str) -> Ended {
        self.run_with(line, &[])
    }

    /// Trains the toy into `out`, with more flags.
    pub fn train(&self, out: &str, more: &str) -> Ended {
        self.run(&format!("train {TOY} {NAMES} --out {out} {more}"))
    }
}

/// The step of a run's last checkpoint.
pub fn checkpoint_step(room: &Room, run: &str) -> u64 {
    let state: serde_json::Value = serde_json::from_slice(&room.read(&format!("{run}/last/trainer.json"))).unwrap();
    state["state"]["step"].as_u64().unwrap()
}

/// The lines of a run's metrics, as far as they do not tell of time.
pub fn measurements(room: &Room, run: &str) -> Vec<String> {
    let timeless = |line: &str| line.split(",\"tokens_per_second\"").next().unwrap().to_string();
    room.text(&format!("{run}/metrics.jsonl")).lines().map(timeless).collect()
}

/// Demands that two runs are one: weights, moments, best model, samples and measurements, bit for bit.
#[track_caller]
pub fn assert_same_run(room: &Room, run: &str, whole: &str) {
    for file in ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors", "samples.txt"] {
        assert!(room.read(&format!("{run}/{file}")) == room.read(&format!("{whole}/{file}")), "{run}/{file} differs");
    }
    assert_eq!(measurements(room, run), measurements(room, whole), "{run}");
}

/// A room with a finished toy run in `run`, trained once for all tests that only read it.
pub fn trained() -> &'static Path {
    static TRAINED: OnceLock<PathBuf> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let room = Room::new();
        room.train("run", "").fine();
        // Cargo's own directory for tests: what the last test process left there is replaced.
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toy-run");
        if kept.exists() {
            std::fs::remove_dir_all(&kept).unwrap();
        }
        copy_directory(&room.path("run"), &kept);
        kept
    })
}

pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
