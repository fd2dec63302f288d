// Package export writes the events of a namespace as tables that other programs read: JSON lines,
// CSV or Parquet. docs/guide/export.md describes the tables. Regardless of the length of the log,
// it holds only a group of rows of each table and the open locks in memory.
package export
