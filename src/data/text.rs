//! Text files as training text: UTF-8 only, without byte order mark, with `\n` line ends.

use thiserror::Error;

/// Why a text could not be used.
#[derive(Debug, Error)]
pub enum TextError {
    #[error("no text file was named: at least one is needed")]
    NoFiles,
    #[error("cannot read {name}: {source}")]
    Unreadable { name: String, source: std::io::Error },
    #[error("{name} is empty: a text file with at least one character is needed")]
    Empty { name: String },
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
/// Fails on an empty list and on the first file that is missing, unreadable, empty or not UTF-8, naming it.
pub fn read_files<P: AsRef<std::path::Path>>(paths: &[P]) -> Result<String, TextError> {
    if paths.is_empty() {
        return Err(TextError::NoFiles);
    }
    let texts = paths.iter().map(|path| {
        let path = path.as_ref();
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => from_bytes(&name, &bytes),
            Err(source) => Err(TextError::Unreadable { name, source }),
        }
    });
    Ok(concatenate(texts.collect::<Result<Vec<_>, _>>()?))
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
}
