//! A directory whose files belong together, replaced as a whole.
//!
//! No file system swaps two directories portably, so the replacement takes several renames, and each state
//! between two of them says what to do next:
//!
//! | neighbours of `last` | means | recovery |
//! |---|---|---|
//! | `last.partial` | being written, worthless | removed |
//! | `last.new` | complete and synced | moved to `last`, after `last` moved to `last.old` |
//! | `last.old`, no `last`, no `last.new` | the swap was undone by a crash | moved back to `last` |
//! | `last.old` and `last` | the swap is done | `last.old` removed |

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{FileError, neighbour, parent, sync_directory};

/// The names that a replacement of one directory uses, all in one parent.
struct Places {
    target: PathBuf,
    partial: PathBuf,
    new: PathBuf,
    old: PathBuf,
}

/// A step of the replacement that has just been finished. Tests stop after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Created,
    Filled,
    Completed,
    MovedAway,
    Installed,
}

impl Places {
    fn of(target: &Path) -> Self {
        Self {
            target: target.to_path_buf(),
            partial: neighbour(target, ".partial"),
            new: neighbour(target, ".new"),
            old: neighbour(target, ".old"),
        }
    }
}

/// Replaces the directory `target` (or creates it) by what `fill` writes into the empty directory it is given.
/// The files are synced before the swap. A crash at any moment leaves the old or the new directory whole, under its
/// name or recoverable by [`recover_directory`]; an error of `fill` leaves the old one untouched.
pub fn replace_directory<E: From<FileError>>(
    target: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    replace_observed(target, fill, |_| Ok(()))
}

/// [`replace_directory`], calling `observe` after each step; an error there ends it on the spot, as a kill would.
fn replace_observed<E: From<FileError>>(
    target: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    observe: impl Fn(Done) -> Result<(), E>,
) -> Result<(), E> {
    recover_directory(target)?;
    let places = Places::of(target);
    std::fs::create_dir_all(&places.partial).map_err(FileError::at("create", &places.partial))?;
    observe(Done::Created)?;
    if let Err(error) = fill(&places.partial) {
        // The first error is the one to report; recovery removes what this leaves.
        let _ = std::fs::remove_dir_all(&places.partial);
        return Err(error);
    }
    observe(Done::Filled)?;
    sync_files(&places.partial)?;
    rename(&places.partial, &places.new)?;
    sync_directory(parent(target))?;
    observe(Done::Completed)?;
    install(&places, observe)
}

/// From "`new` is complete" to "`target` is new and nothing else is left".
fn install<E: From<FileError>>(places: &Places, observe: impl Fn(Done) -> Result<(), E>) -> Result<(), E> {
    if places.target.exists() {
        remove(&places.old)?;
        rename(&places.target, &places.old)?;
    }
    observe(Done::MovedAway)?;
    rename(&places.new, &places.target)?;
    sync_directory(parent(&places.target))?;
    observe(Done::Installed)?;
    Ok(remove(&places.old)?)
}

/// Finishes or undoes a replacement of `target` that was interrupted, and removes its leftovers. Does nothing where
/// none was. Call it only by the directory's one writer.
pub fn recover_directory(target: &Path) -> Result<(), FileError> {
    let places = Places::of(target);
    remove(&places.partial)?;
    if places.new.exists() {
        return install(&places, |_| Ok(()));
    }
    if !places.target.exists() && places.old.exists() {
        rename(&places.old, &places.target)?;
        return sync_directory(parent(target));
    }
    remove(&places.old)
}

/// Where the content of `target` lies now, for a reader that must not repair: `target` itself, or what an
/// interrupted replacement left of it; `None` where there is nothing.
pub fn surviving_directory(target: &Path) -> Option<PathBuf> {
    let Places { target, new, old, .. } = Places::of(target);
    [target, new, old].into_iter().find(|place| place.is_dir())
}

fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    std::fs::rename(from, to).map_err(FileError::at("rename", from))
}

fn remove(directory: &Path) -> Result<(), FileError> {
    match std::fs::remove_dir_all(directory) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError { action: "remove", path: directory.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

/// Syncs every file directly in `directory`, then its entries.
fn sync_files(directory: &Path) -> Result<(), FileError> {
    for entry in std::fs::read_dir(directory).map_err(FileError::at("list", directory))? {
        let path = entry.map_err(FileError::at("list", directory))?.path();
        if path.is_file() {
            // Windows syncs only what is open for writing.
            let file = File::options().write(true).open(&path).map_err(FileError::at("open", &path))?;
            file.sync_all().map_err(FileError::at("sync", &path))?;
        }
    }
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 3] = ["a", "b", "c"];

    fn fill(text: &'static str) -> impl Fn(&Path) -> Result<(), FileError> {
        move |directory| {
            for file in FILES {
                std::fs::write(directory.join(file), text).unwrap();
            }
            Ok(())
        }
    }

    fn killed(path: &Path) -> FileError {
        FileError { action: "kill", path: path.to_path_buf(), source: std::io::Error::other("test") }
    }

    /// The one text in all files of `directory`; panics on a mixture.
    fn content(directory: &Path) -> String {
        let texts: Vec<String> =
            FILES.iter().map(|file| std::fs::read_to_string(directory.join(file)).unwrap()).collect();
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "mixed: {texts:?}");
        texts[0].clone()
    }

    fn entries(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_kill_after_any_step_leaves_one_whole_directory() {
        let steps = [
            (Done::Created, "old"),
            (Done::Filled, "old"),
            (Done::Completed, "new"),
            (Done::MovedAway, "new"),
            (Done::Installed, "new"),
        ];
        for (stop, survivor) in steps {
            let room = tempfile::tempdir().unwrap();
            let last = room.path().join("last");
            replace_directory(&last, fill("old")).unwrap();
            let stopped = replace_observed(&last, fill("new"), |done| match done == stop {
                true => Err(killed(&last)),
                false => Ok(()),
            });
            assert!(stopped.is_err(), "{stop:?} was never reached");

            let read_only = content(&surviving_directory(&last).unwrap());
            assert!(read_only == "old" || read_only == "new", "{stop:?}");
            recover_directory(&last).unwrap();
            assert_eq!(content(&last), survivor, "{stop:?}");
            assert_eq!(entries(room.path()), 1, "{stop:?} leaves something behind");
            replace_directory(&last, fill("third")).unwrap();
            assert_eq!(content(&last), "third");
        }
    }

    #[test]
    fn the_first_directory_survives_a_kill_once_it_is_complete() {
        for (stop, survives) in [(Done::Created, false), (Done::Filled, false), (Done::Completed, true)] {
            let room = tempfile::tempdir().unwrap();
            let last = room.path().join("last");
            let stopped = replace_observed(&last, fill("new"), |done| match done == stop {
                true => Err(killed(&last)),
                false => Ok(()),
            });
            assert!(stopped.is_err());
            recover_directory(&last).unwrap();
            assert_eq!(last.exists(), survives, "{stop:?}");
            assert_eq!(surviving_directory(&last).is_some(), survives);
            assert_eq!(entries(room.path()), usize::from(survives));
        }
    }

    #[test]
    fn a_swap_that_a_crash_undid_is_turned_back() {
        let room = tempfile::tempdir().unwrap();
        let last = room.path().join("last");
        let old = neighbour(&last, ".old");
        std::fs::create_dir(&old).unwrap();
        fill("old")(&old).unwrap();
        assert_eq!(surviving_directory(&last).unwrap(), old);
        recover_directory(&last).unwrap();
        assert_eq!(content(&last), "old");
        assert!(!old.exists());
    }

    #[test]
    fn a_failed_fill_keeps_the_old_directory_and_reports_its_own_error() {
        let room = tempfile::tempdir().unwrap();
        let last = room.path().join("last");
        replace_directory(&last, fill("old")).unwrap();
        let error = replace_directory(&last, |directory| {
            std::fs::write(directory.join("a"), "half").unwrap();
            Err(killed(directory))
        });
        assert_eq!(error.unwrap_err().action, "kill");
        assert_eq!(content(&last), "old");
        assert_eq!(entries(room.path()), 1);
    }

    #[test]
    fn recovery_of_nothing_does_nothing() {
        let room = tempfile::tempdir().unwrap();
        recover_directory(&room.path().join("last")).unwrap();
        assert_eq!(surviving_directory(&room.path().join("last")), None);
    }
}
