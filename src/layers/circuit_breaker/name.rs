//! How a circuit is named: its layer, and its key where it has one.

use std::cell::Cell;

thread_local! {
    /// The name of a keyed circuit, written anew for each fact, so that no call allocates it and no key keeps it.
    static SHOWN: Cell<String> = const { Cell::new(String::new()) };
}

/// Tells the name of a circuit.
pub(super) fn shown<T>(layer: &str, key: &str, tell: impl FnOnce(&str) -> T) -> T {
    if key.is_empty() {
        return tell(layer);
    }
    let text = written(layer, key);
    let told = tell(&text);
    SHOWN.set(text);
    told
}

fn written(layer: &str, key: &str) -> String {
    let mut text = SHOWN.take();
    text.clear();
    text.push_str(layer);
    text.push(':');
    text.push_str(key);
    text
}
