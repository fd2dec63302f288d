// Package export writes the events of a namespace as tables that other programs read: JSON lines, CSV or Parquet. docs/guide/export.md describes the
// tables. What is held in memory is a group of rows of each table and the locks that are open, however long the log.
package export
