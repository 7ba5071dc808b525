//! Text that cannot become markup.

/// `text` with everything that means something in HTML, SVG or an attribute written out. Control characters, which XML
/// does not know, become blanks.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            // Marks that turn the direction of writing could make a name read as another one.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` as markup, with what stands between backticks as code.
pub(crate) fn prose(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in escape(text).split('`').enumerate() {
        match (place, place.is_multiple_of(2)) {
            (0, _) => {}
            (_, true) => html.push_str("</code>"),
            (_, false) => html.push_str("<code>"),
        }
        html.push_str(part);
    }
    if html.matches("<code>").count() > html.matches("</code>").count() {
        html.push_str("</code>");
    }
    html
}

/// JSON text that can stand inside a `script` element.
pub(crate) fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(
            escape("</title><script>alert('x' & \"y\")</script>\u{0}\u{202e}"),
            "&lt;/title&gt;&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt; \u{fffd}"
        );
        assert_eq!(prose("a `<b>` c `d"), "a <code>&lt;b&gt;</code> c <code>d</code>");
        assert_eq!(escape_json("{\"a\":\"</script>\"}"), "{\"a\":\"\\u003c/script>\"}");
    }
}
