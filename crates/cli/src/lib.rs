//! being written
mod age; mod chain; mod columns; mod printable; mod table; mod words;
