//! How a key is shown: behind the name of its layer.

use std::cell::Cell;

thread_local! {
    /// Where a key is written out, so that no call allocates it and no key keeps it.
    static SHOWN: Cell<String> = const { Cell::new(String::new()) };
}

/// Tells a key behind the name of its layer. Who tells another key meanwhile writes to a text of its own.
pub(super) fn named<T>(layer: &str, key: &str, tell: impl FnOnce(&str) -> T) -> T {
    let mut text = SHOWN.take();
    text.clear();
    text.push_str(layer);
    text.push(':');
    text.push_str(key);
    let told = tell(&text);
    SHOWN.set(text);
    told
}
