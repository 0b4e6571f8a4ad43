//! ferrisson-fred
