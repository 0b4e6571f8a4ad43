//! A guard or permit that is not kept gives back at once: the compiler warns.
//!
//! ```
//! #![deny(unused_must_use)]
//! # use ferrisson_core::{LockHandle, Result, SemaphoreHandle};
//! async fn kept(lock: LockHandle, semaphore: SemaphoreHandle) -> Result<()> {
//!     let _guard = lock.lock().await?;
//!     let _permit = semaphore.acquire(1).await?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! # use ferrisson_core::{LockHandle, Result};
//! async fn lost(lock: LockHandle) -> Result<()> {
//!     lock.lock().await?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! # use ferrisson_core::{Result, SemaphoreHandle};
//! async fn lost(semaphore: SemaphoreHandle) -> Result<()> {
//!     semaphore.acquire(1).await?;
//!     Ok(())
//! }
//! ```
