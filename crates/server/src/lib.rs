//! HTTP API of Campanile.
