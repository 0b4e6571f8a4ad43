use std::{
    future::Future,
    pin::Pin,
    task::{self, Poll},
};

use tokio::runtime::Handle;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::Context;

/// A future that is not lost half way: once polled, it goes on in the background when dropped.
///
/// A request that was sent cannot be taken back, so somebody has to see its reply and undo what
/// nobody wants any more. Whatever the future yields in the background is dropped there; a grant
/// releases itself by that. Dropped before the first poll, nothing has happened and nothing will.
#[derive(Debug)]
pub(crate) struct Completing<F: Future + Send + 'static>
where
    F::Output: Send + 'static,
{
    future: Option<Pin<Box<F>>>,
    runtime: Option<Handle>,
    tasks: TaskTracker,
    /// An orderly end waits for requests that are under way, here too.
    running: Option<TaskTrackerToken>,
}

impl<F: Future + Send + 'static> Completing<F>
where
    F::Output: Send + 'static,
{
    pub(crate) fn new(context: &Context, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            runtime: None,
            tasks: context.tasks.clone(),
            running: Some(context.tasks.token()),
        }
    }

    /// For the end itself, which does not wait for itself.
    pub(crate) fn untracked(context: &Context, future: F) -> Self {
        let mut this = Self::new(context, future);
        this.running = None;
        this
    }
}

impl<F: Future + Send + 'static> Future for Completing<F>
where
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.runtime.is_none() {
            this.runtime = Handle::try_current().ok();
        }
        let future = this.future.as_mut().expect("polled after completion");
        let output = task::ready!(future.as_mut().poll(cx));
        this.future = None;
        Poll::Ready(output)
    }
}

impl<F: Future + Send + 'static> Drop for Completing<F>
where
    F::Output: Send + 'static,
{
    fn drop(&mut self) {
        if let (Some(future), Some(runtime)) = (self.future.take(), self.runtime.take()) {
            self.tasks.spawn_on(async { drop(future.await) }, &runtime);
        }
    }
}
