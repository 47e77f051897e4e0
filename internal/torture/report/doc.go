// Package report prints the results of a run of torture, as Markdown. It only counts and writes.
package report
