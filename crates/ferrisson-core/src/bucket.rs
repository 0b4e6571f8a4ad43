//! Buckets: one typed value under one name.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    backend::{BackendError, Condition, Expiry, Ttl},
    codec::Codec,
    engine::Context,
    error::{Cause, Error, Result},
    lease::check_ttl,
    name::Name,
};

/// One value that many processes share: Redisson's `RBucket`.
///
/// What applications pass around and mock: `&dyn Bucket<T>`. [`BucketHandle`] has the same methods
/// and says more about each.
///
/// # Cancel safety
///
/// Of all methods: a dropped call that was sent is completed in the background.
///
/// # Errors
///
/// Of all methods: as [`BucketHandle::get`].
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[allow(clippy::missing_errors_doc)] // Said once, above.
pub trait Bucket<T: Send + Sync + 'static>: fmt::Debug + Send + Sync {
    /// The name that all processes share.
    fn name(&self) -> &Name;

    /// The value, `None` if there is none.
    async fn get(&self) -> Result<Option<T>>;

    /// Sets the value. A time to live of the one before is dropped.
    async fn set(&self, value: &T) -> Result<()>;

    /// Sets the value, which ends after `ttl`.
    async fn set_with_ttl(&self, value: &T, ttl: Duration) -> Result<()>;

    /// Sets the value; it ends when the one before would have ended.
    async fn set_keep_ttl(&self, value: &T) -> Result<()>;

    /// Sets the value if there is none; `true` if it did.
    async fn set_if_absent(&self, value: &T) -> Result<bool>;

    /// As `set_if_absent`, and the value ends after `ttl`.
    async fn set_if_absent_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool>;

    /// Sets the value if there is one; `true` if it did. A time to live is dropped.
    async fn set_if_exists(&self, value: &T) -> Result<bool>;

    /// As `set_if_exists`, and the value ends after `ttl`.
    async fn set_if_exists_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool>;

    /// Sets the value to `new` if it is `expected`; `true` if it did. `None` stands for no value, on
    /// both sides.
    async fn compare_and_set<'a>(
        &self,
        expected: Option<&'a T>,
        new: Option<&'a T>,
    ) -> Result<bool>;

    /// Sets the value and answers the one before. A time to live is dropped.
    async fn get_and_set(&self, value: &T) -> Result<Option<T>>;

    /// As `get_and_set`, and the new value ends after `ttl`.
    async fn get_and_set_with_ttl(&self, value: &T, ttl: Duration) -> Result<Option<T>>;

    /// Removes the value and answers it.
    async fn take(&self) -> Result<Option<T>>;

    /// Deletes the key, whatever it holds; `true` if it existed.
    async fn delete(&self) -> Result<bool>;

    /// Whether the key exists, whatever it holds.
    async fn exists(&self) -> Result<bool>;

    /// Length of the encoded value in bytes, 0 if there is none.
    async fn size(&self) -> Result<u64>;

    /// Lets the value end after `ttl`; `false` if there is none.
    async fn expire(&self, ttl: Duration) -> Result<bool>;

    /// Lets the value stay for good; `false` if there is none, or it had no end.
    async fn clear_expiry(&self) -> Result<bool>;

    /// How long the value stays.
    async fn ttl(&self) -> Result<Ttl>;

    /// Marks the value as used, for servers that evict what is not; `true` if there is one.
    async fn touch(&self) -> Result<bool>;
}

/// A bucket of one client. Made by [`Client::bucket`](crate::Client::bucket) and
/// [`Client::bucket_with`](crate::Client::bucket_with) without any I/O; clone it freely.
///
/// # Examples
///
/// ```
/// # use ferrisson_core::{Client, Result, codec::Text};
/// # async fn example(client: Client) -> Result<()> {
/// let bucket = client.bucket_with::<String, _>("javaboy", Text);
/// bucket.set(&"www.javaboy.org".into()).await?;
/// assert_eq!(bucket.get().await?.as_deref(), Some("www.javaboy.org"));
/// # Ok(())
/// # }
/// ```
pub struct BucketHandle<T, C> {
    context: Arc<Context>,
    name: Name,
    codec: Arc<C>,
    value: PhantomData<fn() -> T>,
}

impl<T, C: Codec<T>> BucketHandle<T, C> {
    pub(crate) fn new(context: &Arc<Context>, name: Name, codec: C) -> Self {
        Self { context: Arc::clone(context), name, codec: Arc::new(codec), value: PhantomData }
    }

    /// The name that all processes share.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The value, `None` if there is none. Redisson: `get()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// [`Codec`](Error::Codec): the value is not one of this type. [`WrongType`](Error::WrongType),
    /// [`InvalidArgument`](Error::InvalidArgument) for the name, [`Unavailable`](Error::Unavailable),
    /// [`Refused`](Error::Refused), [`Closed`](Error::Closed).
    pub async fn get(&self) -> Result<Option<T>> {
        let value = self
            .call("read", |context, name| async move { context.backend.get(&name).await })
            .await?;
        self.decode(value)
    }

    /// Sets the value. A time to live of the one before is dropped. Replaces a value of any type under this name. Redisson: `set(v)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn set(&self, value: &T) -> Result<()> {
        self.put(value, Condition::Always, Expiry::Never).await.map(drop)
    }

    /// Sets the value, which ends after `ttl`. Redisson: `set(v, Duration)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`InvalidArgument`](Error::InvalidArgument) for a time to live of zero or
    /// over 100 years. Fractions of a millisecond are rounded up.
    pub async fn set_with_ttl(&self, value: &T, ttl: Duration) -> Result<()> {
        let ttl = check_ttl(ttl, &self.name)?;
        self.put(value, Condition::Always, Expiry::After(ttl)).await.map(drop)
    }

    /// Sets the value; it ends when the one before would have ended. Redisson: `setAndKeepTTL(v)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn set_keep_ttl(&self, value: &T) -> Result<()> {
        self.put(value, Condition::Always, Expiry::Keep).await.map(drop)
    }

    /// Sets the value if there is none; `true` if it did. Redisson: `setIfAbsent(v)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn set_if_absent(&self, value: &T) -> Result<bool> {
        self.put(value, Condition::IfAbsent, Expiry::Never).await
    }

    /// As `set_if_absent`, and the value ends after `ttl`. Redisson: `setIfAbsent(v, Duration)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`InvalidArgument`](Error::InvalidArgument) for a time to live of zero or
    /// over 100 years. Fractions of a millisecond are rounded up.
    pub async fn set_if_absent_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool> {
        let ttl = check_ttl(ttl, &self.name)?;
        self.put(value, Condition::IfAbsent, Expiry::After(ttl)).await
    }

    /// Sets the value if there is one; `true` if it did. A time to live is dropped. Redisson: `setIfExists(v)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn set_if_exists(&self, value: &T) -> Result<bool> {
        self.put(value, Condition::IfExists, Expiry::Never).await
    }

    /// As `set_if_exists`, and the value ends after `ttl`. Redisson: `setIfExists(v, Duration)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`InvalidArgument`](Error::InvalidArgument) for a time to live of zero or
    /// over 100 years. Fractions of a millisecond are rounded up.
    pub async fn set_if_exists_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool> {
        let ttl = check_ttl(ttl, &self.name)?;
        self.put(value, Condition::IfExists, Expiry::After(ttl)).await
    }

    /// Sets the value to `new` if it is `expected`; `true` if it did. `None` stands for no value, on
    /// both sides. Compares encoded bytes, so the codec has to be canonical (see [`Codec`]). A time to live is
    /// dropped. Redisson: `compareAndSet(expect, update)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn compare_and_set(&self, expected: Option<&T>, new: Option<&T>) -> Result<bool> {
        let expected = expected.map(|value| self.encode(value)).transpose()?;
        let new = new.map(|value| self.encode(value)).transpose()?;
        self.call("comparison", |context, name| async move {
            context.backend.compare_and_set(&name, expected, new).await
        })
        .await
    }

    /// Sets the value and answers the one before. A time to live is dropped. The new value is set even if the one before cannot be decoded. Redisson: `getAndSet(v)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn get_and_set(&self, value: &T) -> Result<Option<T>> {
        let value = self.encode(value)?;
        let before = self
            .call("replacement", |context, name| async move {
                context.backend.replace(&name, value, Expiry::Never).await
            })
            .await?;
        self.decode(before)
    }

    /// As `get_and_set`, and the new value ends after `ttl`. Redisson: `getAndSet(v, Duration)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`InvalidArgument`](Error::InvalidArgument) for a time to live of zero or
    /// over 100 years. Fractions of a millisecond are rounded up.
    pub async fn get_and_set_with_ttl(&self, value: &T, ttl: Duration) -> Result<Option<T>> {
        let ttl = check_ttl(ttl, &self.name)?;
        let value = self.encode(value)?;
        let before = self
            .call("replacement", |context, name| async move {
                context.backend.replace(&name, value, Expiry::After(ttl)).await
            })
            .await?;
        self.decode(before)
    }

    /// Removes the value and answers it. It is removed even if it cannot be decoded. Redisson: `getAndDelete()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background: the value is gone.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn take(&self) -> Result<Option<T>> {
        let value = self
            .call("removal", |context, name| async move { context.backend.take(&name).await })
            .await?;
        self.decode(value)
    }

    /// Deletes the key, whatever it holds; `true` if it existed. Redisson: `delete()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn delete(&self) -> Result<bool> {
        self.call("deletion", |context, name| async move { context.backend.delete(&name).await })
            .await
    }

    /// Whether the key exists, whatever it holds. Redisson: `isExists()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn exists(&self) -> Result<bool> {
        self.call("look-up", |context, name| async move { context.backend.exists(&name).await })
            .await
    }

    /// Length of the encoded value in bytes, 0 if there is none. Redisson: `size()`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn size(&self) -> Result<u64> {
        self.call("measurement", |context, name| async move { context.backend.size(&name).await })
            .await
    }

    /// Lets the value end after `ttl`; `false` if there is none. Redisson: `expire(Duration)`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`InvalidArgument`](Error::InvalidArgument) for a time to live of zero or
    /// over 100 years. Fractions of a millisecond are rounded up.
    pub async fn expire(&self, ttl: Duration) -> Result<bool> {
        let ttl = check_ttl(ttl, &self.name)?;
        self.call("expiry", move |context, name| async move {
            context.backend.expire(&name, Some(ttl)).await
        })
        .await
    }

    /// Lets the value stay for good; `false` if there is none, or it had no end. Redisson: `clearExpire()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn clear_expiry(&self) -> Result<bool> {
        self.call(
            "expiry",
            |context, name| async move { context.backend.expire(&name, None).await },
        )
        .await
    }

    /// How long the value stays. Redisson: `remainTimeToLive()`, whose −1 and −2 have names here.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn ttl(&self) -> Result<Ttl> {
        self.call("look-up", |context, name| async move { context.backend.ttl(&name).await }).await
    }

    /// Marks the value as used, for servers that evict what is not; `true` if there is one. Redisson: `touch()`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call that was sent is completed in the background.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn touch(&self) -> Result<bool> {
        self.call("touch", |context, name| async move { context.backend.touch(&name).await }).await
    }

    async fn put(&self, value: &T, condition: Condition, expiry: Expiry) -> Result<bool> {
        let value = self.encode(value)?;
        self.call("write", move |context, name| async move {
            context.backend.set(&name, value, condition, expiry).await
        })
        .await
    }

    async fn call<R, F, Fut>(&self, operation: &'static str, call: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(Arc<Context>, Name) -> Fut,
        Fut: Future<Output = Result<R, BackendError>> + Send + 'static,
    {
        self.context.call(operation, &self.name, call).await
    }

    fn encode(&self, value: &T) -> Result<Bytes> {
        self.codec.encode(value).map_err(|source| Error::Codec {
            name: self.name.clone(),
            direction: "encoded",
            source: Cause::from(source),
        })
    }

    fn decode(&self, value: Option<Bytes>) -> Result<Option<T>> {
        value.map(|bytes| self.codec.decode(&bytes)).transpose().map_err(|source| Error::Codec {
            name: self.name.clone(),
            direction: "decoded",
            source: Cause::from(source),
        })
    }
}

#[async_trait]
impl<T: Send + Sync + 'static, C: Codec<T>> Bucket<T> for BucketHandle<T, C> {
    fn name(&self) -> &Name {
        Self::name(self)
    }

    async fn get(&self) -> Result<Option<T>> {
        Self::get(self).await
    }

    async fn set(&self, value: &T) -> Result<()> {
        Self::set(self, value).await
    }

    async fn set_with_ttl(&self, value: &T, ttl: Duration) -> Result<()> {
        Self::set_with_ttl(self, value, ttl).await
    }

    async fn set_keep_ttl(&self, value: &T) -> Result<()> {
        Self::set_keep_ttl(self, value).await
    }

    async fn set_if_absent(&self, value: &T) -> Result<bool> {
        Self::set_if_absent(self, value).await
    }

    async fn set_if_absent_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool> {
        Self::set_if_absent_with_ttl(self, value, ttl).await
    }

    async fn set_if_exists(&self, value: &T) -> Result<bool> {
        Self::set_if_exists(self, value).await
    }

    async fn set_if_exists_with_ttl(&self, value: &T, ttl: Duration) -> Result<bool> {
        Self::set_if_exists_with_ttl(self, value, ttl).await
    }

    async fn compare_and_set<'a>(
        &self,
        expected: Option<&'a T>,
        new: Option<&'a T>,
    ) -> Result<bool> {
        Self::compare_and_set(self, expected, new).await
    }

    async fn get_and_set(&self, value: &T) -> Result<Option<T>> {
        Self::get_and_set(self, value).await
    }

    async fn get_and_set_with_ttl(&self, value: &T, ttl: Duration) -> Result<Option<T>> {
        Self::get_and_set_with_ttl(self, value, ttl).await
    }

    async fn take(&self) -> Result<Option<T>> {
        Self::take(self).await
    }

    async fn delete(&self) -> Result<bool> {
        Self::delete(self).await
    }

    async fn exists(&self) -> Result<bool> {
        Self::exists(self).await
    }

    async fn size(&self) -> Result<u64> {
        Self::size(self).await
    }

    async fn expire(&self, ttl: Duration) -> Result<bool> {
        Self::expire(self, ttl).await
    }

    async fn clear_expiry(&self) -> Result<bool> {
        Self::clear_expiry(self).await
    }

    async fn ttl(&self) -> Result<Ttl> {
        Self::ttl(self).await
    }

    async fn touch(&self) -> Result<bool> {
        Self::touch(self).await
    }
}

impl<T, C> Clone for BucketHandle<T, C> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            name: self.name.clone(),
            codec: Arc::clone(&self.codec),
            value: PhantomData,
        }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for BucketHandle<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketHandle")
            .field("name", &self.name)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}
