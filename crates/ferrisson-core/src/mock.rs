//! Mocks of the traits, made with [`mockall`], for tests that force one branch.
//!
//! Their guards and permits come from [`LockGuard::detached`](crate::LockGuard::detached) and
//! [`SemaphorePermit::detached`](crate::SemaphorePermit::detached): they hold nothing.
//!
//! ```
//! use std::time::Duration;
//! use ferrisson_core::{Lease, Lock, LockGuard, mock::MockLock};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let mut lock = MockLock::new();
//! lock.expect_try_lock().times(1).returning(|_, _| Ok(Some(LockGuard::detached("orders:42"))));
//!
//! let lock: &dyn Lock = &lock;
//! let guard = lock.try_lock(Duration::ZERO, Lease::AutoRenew).await.unwrap().unwrap();
//! assert!(guard.is_held());
//! guard.unlock().await.unwrap();
//! # })
//! ```

pub use crate::{bucket::MockBucket, lock::MockLock, semaphore::MockSemaphore};
