//! Parts of a message, both ways.

use serde_json::Value;

use crate::chat::{Content, Extra, Media, Part, Source};
use crate::protocol::json::{Fields, take_text};

use super::{PART, RESPONSES};

/// The media type of a picture that names none.
const PICTURE: &str = "image/png";

/// The media type of a file that names none.
const FILE: &str = "application/pdf";

/// The format of a sound that names none.
const SOUND: &str = "wav";

// --- in ---

/// Reads a part that a client sent. Its type is kept, since a text is spelled in several ways.
pub(super) fn read(value: Value) -> Part {
    let Value::Object(mut fields) = value else { return other(value) };
    let content = match fields.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text" | "text") => take_text(&mut fields, "text").map(Content::Text),
        Some("refusal") => take_text(&mut fields, "refusal").map(Content::Refusal),
        Some("input_image") => image(&mut fields).map(Content::Image),
        Some("input_audio") => audio(&mut fields).map(Content::Audio),
        Some("input_file") => file(&mut fields).map(Content::File),
        _ => None,
    };
    let Some(content) = content else { return other(Value::Object(fields)) };
    let mut part = Part::from(content);
    part.extra = Extra::rest(RESPONSES, fields);
    part
}

/// Reads a part of a reply. Nothing is kept of empty lists, nor of the type, which the role tells.
pub(super) fn read_output(value: Value) -> Part {
    let mut part = read(value);
    if let (Content::Text(_) | Content::Refusal(_), Some(fields)) =
        (&part.content, part.extra.fields(RESPONSES))
    {
        let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let rest = fields.iter().filter(|(name, value)| *name != "type" && !is_empty(value));
        part.extra =
            Extra::rest(RESPONSES, rest.map(|(name, value)| (name.clone(), value.clone())).collect());
    }
    part
}

fn other(value: Value) -> Part {
    let mut part = Part::from(Content::Other(RESPONSES, value));
    part.extra.set(RESPONSES, PART, true);
    part
}

fn image(fields: &mut Fields) -> Option<Media> {
    if let Some(id) = take_text(fields, "file_id") {
        return Some(Media::id(id));
    }
    let url = take_text(fields, "image_url")?;
    Some(inline(&url).unwrap_or_else(|| Media::url(url)))
}

fn audio(fields: &mut Fields) -> Option<Media> {
    let sound = fields.get_mut("input_audio")?.as_object_mut()?;
    sound.get("format")?.as_str()?;
    let data = take_text(sound, "data")?;
    let format = take_text(sound, "format")?;
    if sound.is_empty() {
        fields.remove("input_audio");
    }
    Some(Media::base64(format, data))
}

fn file(fields: &mut Fields) -> Option<Media> {
    let mut media = if let Some(id) = take_text(fields, "file_id") {
        Media::id(id)
    } else if let Some(url) = take_text(fields, "file_url") {
        Media::url(url)
    } else {
        let media = inline(fields.get("file_data")?.as_str()?)?;
        fields.remove("file_data");
        media
    };
    media.name = take_text(fields, "filename");
    Some(media)
}

/// Media that stand in their own address.
fn inline(url: &str) -> Option<Media> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    (!media_type.is_empty()).then(|| Media::base64(media_type, data))
}

// --- out ---

/// Writes a part of a message or of a tool's result; `None` for what is neither, or another protocol's.
pub(super) fn write(part: &Part, assistant: bool) -> Option<Value> {
    let kept = part.extra.fields(RESPONSES);
    let typed = kept.is_some_and(|fields| fields.contains_key("type"));
    // A turn of the model whose spelling is ours: it has no media.
    let foreign = assistant && !typed;
    let mut fields = match &part.content {
        Content::Text(text) if assistant => object("output_text", "text", text),
        Content::Text(text) => object("input_text", "text", text),
        Content::Refusal(text) if !assistant && !typed => object("input_text", "text", text),
        Content::Refusal(text) => object("refusal", "refusal", text),
        Content::Image(_) | Content::Audio(_) | Content::File(_) if foreign => return None,
        Content::Image(media) => image_out(media),
        Content::Audio(media) => audio_out(media, typed)?,
        Content::File(media) => file_out(media),
        Content::Other(RESPONSES, value) => return Some(value.clone()),
        _ => return None,
    };
    if let Some(kind) = kept.and_then(|fields| fields.get("type")) {
        fields.insert("type".to_owned(), kind.clone());
    }
    write_rest(&part.extra, true, &mut fields);
    // The list of a text's annotations must be there, unless the text was read without.
    if foreign && matches!(part.content, Content::Text(_)) {
        fields.entry("annotations").or_insert_with(|| Value::Array(Vec::new()));
    }
    Some(Value::Object(fields))
}

/// Writes the fields kept of this protocol, but for our own marks, and for the id if it is of no use there.
pub(super) fn write_rest(extra: &Extra, ids: bool, into: &mut Fields) {
    for (name, value) in extra.fields(RESPONSES).into_iter().flatten() {
        if name.starts_with('\0') || (name == "id" && !ids) {
            continue;
        }
        match into.get_mut(name) {
            // What is left of an object whose known fields were taken out.
            Some(Value::Object(known)) => {
                let rest = value.as_object().into_iter().flatten();
                for (name, value) in rest {
                    known.entry(name.as_str()).or_insert_with(|| value.clone());
                }
            }
            Some(_) => {}
            None => _ = into.insert(name.clone(), value.clone()),
        }
    }
}

pub(super) fn object(kind: &str, name: &str, text: &str) -> Fields {
    Fields::from_iter([("type".to_owned(), Value::from(kind)), (name.to_owned(), Value::from(text))])
}

fn image_out(media: &Media) -> Fields {
    match &media.source {
        Source::Url(url) => object("input_image", "image_url", url),
        Source::Base64(data) => object("input_image", "image_url", &data_url(media, data, PICTURE)),
        Source::Id(id) => object("input_image", "file_id", id),
    }
}

fn audio_out(media: &Media, typed: bool) -> Option<Fields> {
    let Source::Base64(data) = &media.source else { return None };
    let format = media.media_type.as_deref().unwrap_or(SOUND);
    let format = format.strip_prefix("audio/").filter(|_| !typed).unwrap_or(format);
    let sound = Fields::from_iter([
        ("data".to_owned(), Value::from(data.as_ref())),
        ("format".to_owned(), Value::from(format)),
    ]);
    Some(Fields::from_iter([
        ("type".to_owned(), Value::from("input_audio")),
        ("input_audio".to_owned(), Value::Object(sound)),
    ]))
}

fn file_out(media: &Media) -> Fields {
    let mut fields = match &media.source {
        Source::Url(url) => object("input_file", "file_url", url),
        Source::Base64(data) => object("input_file", "file_data", &data_url(media, data, FILE)),
        Source::Id(id) => object("input_file", "file_id", id),
    };
    if let Some(name) = &media.name {
        fields.insert("filename".to_owned(), Value::from(name.as_str()));
    }
    fields
}

fn data_url(media: &Media, data: &str, default: &str) -> String {
    let told = media.media_type.as_deref().filter(|told| !told.is_empty());
    format!("data:{};base64,{data}", told.unwrap_or(default))
}
