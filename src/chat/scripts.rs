//! The scripts of a text, counted in one pass.

/// Characters to a token of Latin script.
pub(super) const LATIN: f64 = 4.0;

/// Of Chinese, Japanese and Korean.
const CJK: f64 = 1.4;

/// Of other scripts.
const OTHER: f64 = 3.0;

/// Of JSON.
pub(super) const JSON: f64 = 2.5;

/// Of base64, hex and ids.
const DENSE: f64 = 1.5;

/// A run of letters and digits mixed is an id or encoded bytes from this length on; no word is.
const DENSE_RUN: usize = 20;

/// A run without a digit is encoded bytes from this length on; no word of German is.
const LONG_RUN: usize = 80;

/// What one pass over a text found.
#[derive(Default)]
pub(super) struct Scripts {
    latin: usize,
    cjk: usize,
    other: usize,
    dense: usize,
    /// The run of letters and digits that is open: its length, and whether it has a digit and a letter.
    run: usize,
    digit: bool,
    letter: bool,
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn of(text: &str) -> Self {
        let mut scripts = Self::default();
        for character in text.chars() {
            scripts.take(character);
        }
        scripts.close();
        scripts
    }

    fn take(&mut self, character: char) {
        match character {
            'a'..='z' | 'A'..='Z' => {
                self.run += 1;
                self.letter = true;
            }
            '0'..='9' => {
                self.run += 1;
                self.digit = true;
            }
            // What base64 has besides, but no path or name alone.
            '+' | '=' if self.run > 0 => self.run += 1,
            '\u{0}'..='\u{24f}' => {
                self.close();
                self.latin += 1;
            }
            '\u{1100}'..='\u{11ff}'
            | '\u{2e80}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => {
                self.close();
                self.cjk += 1;
            }
            // A picture character is several tokens.
            '\u{1f000}'..='\u{1ffff}' => {
                self.close();
                self.cjk += 2;
            }
            _ => {
                self.close();
                self.other += 1;
            }
        }
    }

    /// Closes a run: a word, or encoded bytes.
    fn close(&mut self) {
        let dense = self.run >= LONG_RUN || (self.run >= DENSE_RUN && self.digit && self.letter);
        *(if dense { &mut self.dense } else { &mut self.latin }) += self.run;
        (self.run, self.digit, self.letter) = (0, false, false);
    }

    /// The tokens of it, at so many characters of Latin script each.
    pub(super) fn tokens(&self, latin: f64) -> f64 {
        per(self.latin, latin) + per(self.cjk, CJK) + per(self.other, OTHER) + per(self.dense, DENSE)
    }
}

/// Tokens of so many characters, at so many each.
pub(super) fn per(characters: usize, per_token: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a length")]
    let characters = characters as f64;
    characters / per_token
}
