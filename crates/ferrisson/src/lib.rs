//! ferrisson
