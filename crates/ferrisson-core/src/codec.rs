//! How values become bytes.

use std::fmt::Debug;

use bytes::Bytes;

/// The failure of a codec.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Turns values of a bucket into bytes and back.
///
/// [`compare_and_set`](crate::Bucket::compare_and_set) compares bytes, so for it a codec must be
/// canonical: equal values give equal bytes. [`Text`] and [`Raw`] are; [`Json`] is for structs,
/// and for maps with a fixed order such as `BTreeMap`, but not for `HashMap`.
pub trait Codec<T>: Debug + Send + Sync + 'static {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// When the value has no form in this encoding.
    fn encode(&self, value: &T) -> Result<Bytes, CodecError>;

    /// Decodes a value.
    ///
    /// # Errors
    ///
    /// When the bytes are not what [`encode`](Self::encode) makes of a value of this type.
    fn decode(&self, bytes: &Bytes) -> Result<T, CodecError>;
}

/// JSON without class names, by serde. Redisson reads and writes the same with
/// `TypedJsonJacksonCodec`.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

#[cfg(feature = "json")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, CodecError> {
        Ok(serde_json::to_vec(value)?.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<T, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// Plain UTF-8 text. Redisson's `StringCodec`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

impl Codec<String> for Text {
    fn encode(&self, value: &String) -> Result<Bytes, CodecError> {
        Ok(Bytes::copy_from_slice(value.as_bytes()))
    }

    fn decode(&self, bytes: &Bytes) -> Result<String, CodecError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// Bytes as they are. Redisson's `ByteArrayCodec`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes, CodecError> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Bytes, CodecError> {
        Ok(bytes.clone())
    }
}

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Bytes, CodecError> {
        Ok(Bytes::copy_from_slice(value))
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }
}
