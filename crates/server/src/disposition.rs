//! `Content-Disposition` (RFC 6266): the name of a file, read and written.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stays as it is in `filename*` (RFC 8187).
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The name that a header gives to its file: that of `filename*` where it can be read, else that of `filename`. A path before the
/// name is left out.
pub(crate) fn filename(header: &str) -> Option<String> {
    let parameters = parameters(header);
    let value = |wanted: &str| {
        parameters
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value)
    };
    let extended = value("filename*").and_then(|value| {
        let (charset, rest) = value.split_once('\'')?;
        let (_, encoded) = rest.split_once('\'')?;
        let utf8 = charset.eq_ignore_ascii_case("utf-8");
        utf8.then(|| percent_decode_str(encoded).decode_utf8().ok())?
            .map(|name| name.into_owned())
    });
    let name = extended.or_else(|| value("filename").cloned())?;
    last_segment(&name)
}

/// What follows the last separator of a path.
pub(crate) fn last_segment(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    (!last.is_empty()).then(|| last.to_owned())
}

/// The parameters after the kind, names in small letters; quoted values without their quotes.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = header.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', '\t', ';']).to_ascii_lowercase();
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        found.push((name, value));
        rest = left;
    }
    found
}

/// A quoted value after its first quote, and what follows it.
fn unquote(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[index + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// A header that names a file: `attachment; filename="a.pdf"; filename*=UTF-8''a.pdf`.
pub(crate) fn write(how: &str, filename: Option<&str>) -> String {
    let Some(name) = filename else {
        return how.to_owned();
    };
    let plain: String = name
        .chars()
        .map(|c| match c {
            '"' | '\\' | '%' => '_',
            c if c.is_ascii_graphic() || c == ' ' => c,
            _ => '_',
        })
        .collect();
    let extended = utf8_percent_encode(name, ATTRIBUTE);
    format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{extended}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_rfc_6266_writes_them() {
        for (header, name) in [
            ("attachment; filename=scan.pdf", Some("scan.pdf")),
            ("attachment; filename=\"a b; c.pdf\"; size=3", Some("a b; c.pdf")),
            ("attachment; filename=\"q\\\"uote.pdf\"", Some("q\"uote.pdf")),
            (
                "attachment; FileName*=UTF-8''%e2%82%ac%20rates.pdf",
                Some("€ rates.pdf"),
            ),
            (
                "attachment; filename=\"e.pdf\"; filename*=utf-8'en'%C3%A9.pdf",
                Some("é.pdf"),
            ),
            (
                "attachment; filename=\"e.pdf\"; filename*=utf-8''%ff",
                Some("e.pdf"),
            ),
            ("attachment; filename=\"../../etc/passwd\"", Some("passwd")),
            ("attachment; filename=\"C:\\\\docs\\\\x.pdf\"", Some("x.pdf")),
            ("form-data; name=\"file\"; filename=\"\"", None),
            ("inline", None),
            ("", None),
            ("attachment; filename=\"never ends", Some("never ends")),
        ] {
            assert_eq!(filename(header).as_deref(), name, "{header}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_cannot_break_the_header() {
        for name in ["a.pdf", "é€.pdf", "a\"b.pdf", "100%.txt", "new\nline"] {
            let header = write("attachment", Some(name));
            assert!(header.is_ascii() && !header.contains('\n'), "{header}");
            assert_eq!(filename(&header).as_deref(), Some(name), "{header}");
        }
        assert_eq!(write("inline", None), "inline");
    }
}
