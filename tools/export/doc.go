// Package export writes the events of a namespace as tables that other programs read: JSON lines,
// CSV or Parquet. docs/guide/export.md describes the tables. However long the log, no more is held
// in memory than a group of rows of each table and the locks that are open.
package export
