// Package report formats results: tables in Markdown, plots as SVG, and the raw data as
// JSON. A fault of a contender (a lock held twice, a waiter never woken, an
// error) is shown in its row, and once more in a list of its own.
package report
