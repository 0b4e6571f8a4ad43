# The same tasks as `cargo xtask`, for those who use just.

# List the tasks.
default:
    @just --list

# Run the whole test suite; find or install a Redis server first.
test *args:
    cargo xtask test {{ args }}

# Run it, and the conformance suite on all server versions.
test-servers:
    cargo xtask test --servers all

# Check format, lints, features and documentation.
check:
    cargo xtask check

# Do all that the gate does.
ci:
    .ci/run

# Break the code in many ways, and see that the tests find each.
mutants *args:
    cargo xtask mutants {{ args }}

# Measure speed against the bare commands.
bench *args:
    cargo xtask bench {{ args }}
