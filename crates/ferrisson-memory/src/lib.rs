//! ferrisson-memory
