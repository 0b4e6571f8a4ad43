//! The code of the book's pages, compiled and, where it can be, run.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        $(#[doc = include_str!(concat!("../../docs/src/", $file))] pub struct $name;)*
    };
}

pages! {
    Introduction: "introduction.md",
    GettingStarted: "getting-started.md",
    Lock: "lock.md",
    PlainLock: "plain-lock.md",
    Semaphore: "semaphore.md",
    Bucket: "bucket.md",
    Guarantees: "guarantees.md",
    Testing: "testing.md",
    Architecture: "architecture.md",
    Protocol: "protocol.md",
    Connection: "connection.md",
}
