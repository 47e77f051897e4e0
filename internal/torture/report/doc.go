// Package report says what a run of torture did and found, as Markdown for people
// and as JSON. It only counts and writes.
package report
