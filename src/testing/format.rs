//! The case format of a step, read strictly and turned into values that cannot be wrong.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use super::step::{BodyEnd, Chunk, Connect, PRIMARY, Step};

/// A step as the format spells it.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawStep {
    provider: String,
    connect: Connect,
    delay_ms: u64,
    status: u16,
    headers: BTreeMap<String, String>,
    headers_b64: BTreeMap<String, String>,
    chunks: Vec<RawChunk>,
    end: BodyEnd,
    repeat: u32,
    encode: Option<Encode>,
}

/// A chunk as the format spells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChunk {
    #[serde(default)]
    after_ms: u64,
    data: Option<String>,
    data_b64: Option<String>,
    split: Option<Split>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encode {
    Gzip,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Split {
    Bytewise,
}

// === impl RawStep ===

impl Default for RawStep {
    fn default() -> Self {
        Self {
            provider: PRIMARY.to_owned(),
            connect: Connect::Ok,
            delay_ms: 0,
            status: StatusCode::OK.as_u16(),
            headers: BTreeMap::new(),
            headers_b64: BTreeMap::new(),
            chunks: Vec::new(),
            end: BodyEnd::Close,
            repeat: 1,
            encode: None,
        }
    }
}

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &raw.headers {
            append(&mut headers, name, value.as_bytes())?;
        }
        for (name, value) in &raw.headers_b64 {
            append(&mut headers, name, &unpack(name, value)?)?;
        }
        Ok(Self {
            provider: raw.provider,
            connect: raw.connect,
            delay: Duration::from_millis(raw.delay_ms),
            status: StatusCode::from_u16(raw.status).map_err(|_| format!("status {} is none", raw.status))?,
            headers,
            chunks: raw.chunks.into_iter().map(Chunk::try_from).collect::<Result<_, _>>()?,
            end: raw.end,
            repeat: NonZeroU32::new(raw.repeat).ok_or("repeat 0 is no step at all")?,
            gzip: matches!(raw.encode, Some(Encode::Gzip)),
        })
    }
}

// === impl RawChunk ===

impl TryFrom<RawChunk> for Chunk {
    type Error = String;

    fn try_from(raw: RawChunk) -> Result<Self, String> {
        let data = match (raw.data, raw.data_b64) {
            (Some(text), None) => text.into(),
            (None, Some(packed)) => unpack("data_b64", &packed)?,
            _ => return Err("a chunk has either data or data_b64".to_owned()),
        };
        let bytewise = matches!(raw.split, Some(Split::Bytewise));
        Ok(Self { after: Duration::from_millis(raw.after_ms), data, bytewise })
    }
}

fn append(headers: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), String> {
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
    headers.append(key, HeaderValue::from_bytes(value).map_err(|error| format!("{name}: {error}"))?);
    Ok(())
}

fn unpack(field: &str, packed: &str) -> Result<Bytes, String> {
    STANDARD.decode(packed).map(Bytes::from).map_err(|error| format!("{field}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;

    fn read(text: &str) -> Result<Step, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Scenario: a step that uses every key of the format. Expected: MUST be read to the byte.
    #[test]
    fn every_key_of_the_format_is_read() {
        let step = read(
            r#"{"provider": "secondary", "connect": "ok", "delay_ms": 300, "status": 429, "repeat": 2,
                "headers": {"Retry-After": "1"}, "headers_b64": {"retry-after": "wqAz"}, "encode": "gzip",
                "chunks": [{"after_ms": 5, "data": "é", "split": "bytewise"}, {"data_b64": "/w=="}],
                "end": "hang"}"#,
        )
        .expect("a step");
        let values: Vec<_> = step.headers.get_all("retry-after").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(values, [&b"1"[..], &b"\xc2\xa03"[..]]);
        assert_eq!(step.chunks[0], Chunk { bytewise: true, ..Chunk::new(5, "é") });
        assert_eq!(step.chunks[1], Chunk::new(0, &b"\xff"[..]));
        assert_eq!((step.status.as_u16(), step.delay.as_millis(), step.end), (429, 300, BodyEnd::Hang));
        assert!(step.gzip);
        assert_eq!(Script::of("secondary", &[step.clone(), Step::default()]).len(), 2);
        assert!(Script::of("tertiary", &[step]).is_empty());
    }

    /// Scenario: keys left out. Expected: MUST be an empty 200 of the primary provider, at once.
    #[test]
    fn absent_keys_have_their_defaults() {
        assert_eq!(read("{}").expect("a step"), Step::default());
    }

    /// Scenario: slips of the pen. Expected: MUST be refused, each by name; MUST NOT be skipped.
    #[test]
    fn what_the_format_does_not_know_is_refused() {
        for (text, told) in [
            (r#"{"delay": 3}"#, "delay"),
            (r#"{"chunks": [{"text": "a"}]}"#, "text"),
            (r#"{"chunks": [{"after_ms": 3}]}"#, "either data or data_b64"),
            (r#"{"chunks": [{"data": "a", "split": "half"}]}"#, "half"),
            (r#"{"headers": {"a b": "c"}}"#, "a b"),
            (r#"{"headers_b64": {"a": "?"}}"#, "a: "),
            (r#"{"encode": "br"}"#, "br"),
            (r#"{"status": 7}"#, "status 7"),
            (r#"{"repeat": 0}"#, "repeat 0"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
