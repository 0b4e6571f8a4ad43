//! ferrisson-testkit
