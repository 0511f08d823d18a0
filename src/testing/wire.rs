//! HTTP/1.1 by hand, so that each cut of the script is a cut on the wire.

use std::io::{self, Write as _};

use bytes::{Buf, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use httparse::Status;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::step::{BodyEnd, Chunk, Step};

/// The most headers a request may have: far above what clients of these APIs send.
const MOST_HEADERS: usize = 96;
/// The most bytes a request may have: above the 32 MB that providers take.
const MOST_BYTES: usize = 40 << 20;
/// What ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How a body is marked off on the wire, and packed on the way.
#[derive(Debug)]
pub(super) struct Framing {
    mark: Mark,
    packer: Option<GzEncoder<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The length of the whole body stands in the head.
    Length(usize),
    /// Each write is a chunk.
    Chunked,
    /// The script's own `content-length`, true or not.
    Told,
    /// The status allows no body.
    Bodiless,
}

// === impl Framing ===

impl Framing {
    pub(super) fn new(step: &Step) -> Self {
        let streams =
            step.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event"));
        let mark = if matches!(step.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            Mark::Bodiless
        } else if step.headers.contains_key(CONTENT_LENGTH) && !step.gzip {
            Mark::Told
        } else if step.end == BodyEnd::Close && !streams && !step.gzip {
            Mark::Length(step.chunks.iter().map(|chunk| chunk.data.len()).sum())
        } else {
            Mark::Chunked
        };
        let packs = step.gzip && mark != Mark::Bodiless;
        Self { mark, packer: packs.then(|| GzEncoder::new(Vec::new(), Compression::fast())) }
    }

    /// The response head: the script's headers and what the framing needs.
    pub(super) fn head(&self, step: &Step) -> Vec<u8> {
        let mut headers = step.headers.clone();
        headers.remove(TRANSFER_ENCODING);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        match self.mark {
            Mark::Length(bytes) => drop(headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes))),
            Mark::Chunked => {
                headers.remove(CONTENT_LENGTH);
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            Mark::Told | Mark::Bodiless => {}
        }
        if self.packer.is_some() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let reason = step.status.canonical_reason().unwrap_or("Scripted");
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", step.status.as_str()).into_bytes();
        for (name, value) in &headers {
            let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
            line.iter().for_each(|part| head.extend_from_slice(part));
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The writes of one chunk: one, or one for each byte.
    pub(super) fn writes(&mut self, chunk: &Chunk) -> io::Result<Vec<Vec<u8>>> {
        let data = match &mut self.packer {
            None => chunk.data.clone(),
            Some(packer) => {
                packer.write_all(&chunk.data)?;
                packer.flush()?;
                std::mem::take(packer.get_mut()).into()
            }
        };
        let size = if chunk.bytewise { 1 } else { data.len().max(1) };
        Ok(data.chunks(size).map(|piece| self.frame(piece)).collect())
    }

    /// What a proper end adds: the trailer of the packer, the last chunk.
    pub(super) fn tail(&mut self) -> io::Result<Vec<u8>> {
        let packed = self.packer.take().map_or_else(|| Ok(Vec::new()), GzEncoder::finish)?;
        let mut tail = if packed.is_empty() { packed } else { self.frame(&packed) };
        if self.mark == Mark::Chunked {
            tail.extend_from_slice(LAST_CHUNK);
        }
        Ok(tail)
    }

    fn frame(&self, piece: &[u8]) -> Vec<u8> {
        match self.mark {
            Mark::Length(_) | Mark::Told => piece.to_vec(),
            Mark::Chunked => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
            Mark::Bodiless => Vec::new(),
        }
    }
}

/// Reads one request; an end before it is whole is an error.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Request<Bytes>> {
    let mut bytes = BytesMut::new();
    let mut request = loop {
        if let Some((length, request)) = head(&bytes)? {
            bytes.advance(length);
            break request;
        }
        more(from, &mut bytes).await?;
    };
    let coded = request.headers().contains_key(TRANSFER_ENCODING);
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    *request.body_mut() =
        if coded { chunked(from, bytes).await? } else { sized(from, bytes, length.unwrap_or(0)).await? };
    Ok(request)
}

/// The head of a request and its length, none while it is not whole.
fn head(bytes: &[u8]) -> io::Result<Option<(usize, Request<Bytes>)>> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut fields);
    let Status::Complete(length) = parsed.parse(bytes).map_err(bad)? else { return Ok(None) };
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = parsed.method.unwrap_or_default().parse::<Method>().map_err(bad)?;
    *request.uri_mut() = parsed.path.unwrap_or_default().parse::<Uri>().map_err(bad)?;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(bad)?;
        request.headers_mut().append(name, HeaderValue::from_bytes(field.value).map_err(bad)?);
    }
    Ok(Some((length, request)))
}

async fn sized(from: &mut (impl AsyncRead + Unpin), mut bytes: BytesMut, length: usize) -> io::Result<Bytes> {
    while bytes.len() < length {
        more(from, &mut bytes).await?;
    }
    Ok(bytes.split_to(length).freeze())
}

async fn chunked(from: &mut (impl AsyncRead + Unpin), mut bytes: BytesMut) -> io::Result<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let size = httparse::parse_chunk_size(&bytes).map_err(|_| bad("not a chunk size"))?;
        let Status::Complete((start, size)) = size else {
            more(from, &mut bytes).await?;
            continue;
        };
        let size = usize::try_from(size).map_err(bad)?;
        // The line end after the data; after the last chunk, the one that ends the (empty) trailers.
        let end = start.saturating_add(size).saturating_add(2);
        while bytes.len() < end {
            more(from, &mut bytes).await?;
        }
        body.extend_from_slice(&bytes[start..start + size]);
        bytes.advance(end);
        if size == 0 {
            return Ok(body.freeze());
        }
    }
}

async fn more(from: &mut (impl AsyncRead + Unpin), bytes: &mut BytesMut) -> io::Result<()> {
    if bytes.len() > MOST_BYTES {
        return Err(bad("a request of too many bytes"));
    }
    match from.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
