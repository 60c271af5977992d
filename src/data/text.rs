//! Text files as training text: UTF-8 only, without byte order mark, with `\n` line ends.

use std::io::Read;
use std::path::Path;

use thiserror::Error;

/// The most bytes that are read of all files together. Tokens take four times as many.
const TEXT_LIMIT: usize = 1 << 30;

/// How much is read before it is looked at.
const CHUNK: u64 = 1 << 20;

/// Why a text could not be used.
#[derive(Debug, Error)]
pub enum TextError {
    #[error("no text file was named: at least one is needed")]
    NoFiles,
    #[error("cannot read {name}: {source}")]
    Unreadable { name: String, source: std::io::Error },
    #[error("{name} is empty: a text file with at least one character is needed")]
    Empty { name: String },
    #[error("{name} makes more than {limit} bytes of text: give a part of it")]
    TooLong { name: String, limit: usize },
    #[error("{name} is not UTF-8: invalid at byte offset {offset}; save it as UTF-8")]
    InvalidUtf8 { name: String, offset: usize },
}

/// The text in `bytes`: a leading byte order mark is dropped, `\r\n` becomes `\n` (a lone `\r` stays).
///
/// `name` is what errors call the source. Fails on bytes that are not UTF-8 (with the offset of the first bad byte,
/// counted from 0 and including the byte order mark) and on a text without characters.
pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<String, TextError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| TextError::InvalidUtf8 { name: name.to_owned(), offset: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.is_empty() {
        return Err(TextError::Empty { name: name.to_owned() });
    }
    Ok(text.replace("\r\n", "\n"))
}

/// `texts` one after the other, with a newline between two where the first does not end with one.
pub fn concatenate<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut whole = String::new();
    for text in texts {
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.push_str(text.as_ref());
    }
    whole
}

/// Reads `paths` in order into one text ([`from_bytes`], [`concatenate`]).
///
/// Fails on an empty list, on the first file that is missing, unreadable, empty or not UTF-8, and on more than a
/// gibibyte of text, naming the file.
pub fn read_files<P: AsRef<Path>>(paths: &[P]) -> Result<String, TextError> {
    read_at_most(paths, TEXT_LIMIT)
}

fn read_at_most<P: AsRef<Path>>(paths: &[P], limit: usize) -> Result<String, TextError> {
    if paths.is_empty() {
        return Err(TextError::NoFiles);
    }
    let mut texts = Vec::with_capacity(paths.len());
    let mut left = limit;
    for path in paths {
        let path = path.as_ref();
        let name = path.display().to_string();
        let bytes = read_text(path, &name, left)?.ok_or_else(|| TextError::TooLong { name: name.clone(), limit })?;
        left -= bytes.len();
        texts.push(from_bytes(&name, &bytes)?);
    }
    Ok(concatenate(texts))
}

/// The bytes of a file; `None` if there are more than `limit`. What is not UTF-8 is left at its first bad byte, so
/// that a film or a disk image is not read to its end.
fn read_text(path: &Path, name: &str, limit: usize) -> Result<Option<Vec<u8>>, TextError> {
    let unreadable = |source| TextError::Unreadable { name: name.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    // A pipe has no length, and a file may grow: the loop counts as well.
    if file.metadata().is_ok_and(|metadata| metadata.len() > limit as u64) {
        return Ok(None);
    }
    let (mut bytes, mut valid) = (Vec::new(), 0);
    loop {
        let read = file.by_ref().take(CHUNK).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() > limit {
            return Ok(None);
        }
        match std::str::from_utf8(&bytes[valid..]) {
            Ok(_) => valid = bytes.len(),
            // A character may be cut by the end of what was read, not by that of the file.
            Err(error) if error.error_len().is_none() && read > 0 => valid += error.valid_up_to(),
            Err(error) => {
                return Err(TextError::InvalidUtf8 { name: name.to_owned(), offset: valid + error.valid_up_to() });
            }
        }
        if read == 0 {
            return Ok(Some(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_marks_go_and_windows_line_ends_become_newlines() {
        for (bytes, text) in [
            (&b"abc"[..], "abc"),
            (b"\xef\xbb\xbfabc", "abc"),
            (b"a\r\nb\r\n", "a\nb\n"),
            (b"a\rb\n\r", "a\rb\n\r"),
            (b"a\r\r\nb", "a\r\nb"),
            ("a\u{feff}b".as_bytes(), "a\u{feff}b"),
            ("€\u{0}\u{1f600}".as_bytes(), "€\u{0}\u{1f600}"),
        ] {
            assert_eq!(from_bytes("t", bytes).unwrap(), text);
        }
    }

    #[test]
    fn unusable_bytes_are_refused_with_the_file_and_the_offset() {
        for (bytes, message) in [
            (&b""[..], "t.txt is empty: a text file with at least one character is needed"),
            (b"\xef\xbb\xbf", "t.txt is empty: a text file with at least one character is needed"),
            (b"\xff\xfea\0", "t.txt is not UTF-8: invalid at byte offset 0; save it as UTF-8"),
            (b"ab\xc3(", "t.txt is not UTF-8: invalid at byte offset 2; save it as UTF-8"),
            (b"\xef\xbb\xbfab\x80", "t.txt is not UTF-8: invalid at byte offset 5; save it as UTF-8"),
            // A character cut off by the end of the file, and a surrogate.
            (b"abc\xe2\x82", "t.txt is not UTF-8: invalid at byte offset 3; save it as UTF-8"),
            (b"\xed\xa0\x80", "t.txt is not UTF-8: invalid at byte offset 0; save it as UTF-8"),
        ] {
            assert_eq!(from_bytes("t.txt", bytes).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn files_are_joined_in_order_with_a_newline_only_where_one_lacks() {
        for (texts, whole) in [
            (&["a", "b"][..], "a\nb"),
            (&["a\n", "b\n"], "a\nb\n"),
            (&["b", "a\n", "c"], "b\na\nc"),
            (&["a"], "a"),
            (&[], ""),
        ] {
            assert_eq!(concatenate(texts), whole);
        }
    }

    #[test]
    fn files_are_read_in_the_order_named_and_a_bad_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (first, second) = (write("z.txt", b"\xef\xbb\xbfone\r\n"), write("a.txt", b"two"));
        assert_eq!(read_files(&[&first, &second]).unwrap(), "one\ntwo");
        assert_eq!(read_files(&[&second, &first]).unwrap(), "two\none\n");

        let (empty, broken) = (write("empty.txt", b""), write("broken.txt", b"a\xff"));
        let missing = folder.path().join("missing.txt");
        for (bad, part) in [
            (&empty, "empty.txt is empty"),
            (&broken, "broken.txt is not UTF-8: invalid at byte offset 1"),
            (&missing, "missing.txt: "),
            (&folder.path().to_path_buf(), "cannot read "),
        ] {
            let message = read_files(&[&first, bad]).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'));
        }
        assert!(matches!(read_files::<&str>(&[]), Err(TextError::NoFiles)));
    }

    #[test]
    fn files_are_read_up_to_a_limit_on_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ten.txt");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_at_most(&[&path], 10).unwrap(), "0123456789");
        assert_eq!(read_at_most(&[&path, &path], 20).unwrap(), "0123456789\n0123456789");
        for (paths, limit) in [(&[&path][..], 9), (&[&path, &path], 19)] {
            let message = read_at_most(paths, limit).unwrap_err().to_string();
            assert!(message.ends_with(&format!("ten.txt makes more than {limit} bytes of text: give a part of it")));
        }
    }

    #[test]
    fn a_character_that_two_reads_share_is_whole_and_a_cut_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut text = "x".repeat(CHUNK as usize - 1);
        text.push_str("\u{20ac}y");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read_files(&[&path]).unwrap(), text);
        std::fs::write(&path, &text.as_bytes()[..CHUNK as usize + 1]).unwrap();
        let message = read_files(&[&path]).unwrap_err().to_string();
        assert!(message.ends_with("a.txt is not UTF-8: invalid at byte offset 1048575; save it as UTF-8"), "{message}");
    }
}
