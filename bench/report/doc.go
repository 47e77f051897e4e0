// Package report turns results into what people read: tables for the terminal,
// a Markdown file, plots as SVG, and the raw data as JSON. A fault of a contender
// (a lock held twice, a waiter never woken, an error) stands in the row that it
// happened in, and once more in a list of its own.
package report
