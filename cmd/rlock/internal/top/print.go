package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
)

// columns are the heads of the table.
var columns = []string{"NAME", "KIND", "HOLDER", "SEEN", "LEASE", "WAITING", "NEW/S"}

// sortedBy are the columns of the orders.
var sortedBy = map[Order]int{ByName: 0, BySeen: 3, ByWaiters: 5, ByRate: 6}

// cells returns the cells of a row.
func (r Row) cells() []string {
	c := view.CellsOf(r.Lock)
	seen, rate := "-", "-"
	if r.HolderCount > 0 {
		seen = view.Rounded(r.Seen.Truncate(100 * time.Millisecond))
	}
	if r.Rate >= 0 {
		rate = fmt.Sprintf("%.1f", r.Rate)
	}
	return []string{c.Name, c.Kind, c.Holder, seen, c.Lease, c.Waiting, rate}
}

// Summary returns the totals of the look in one line.
func (l Look) Summary() string {
	t := l.Totals()
	text := fmt.Sprintf("%d held", t.Held)
	switch {
	case t.Processes == 1:
		text += " by 1 process"
	case t.Processes > 1:
		text += fmt.Sprintf(" by %d processes", t.Processes)
	}
	text += fmt.Sprintf(", %d waiting, %.1f new holders/s", t.Waiters, t.Rate)
	switch {
	case l.More:
		text += fmt.Sprintf("; more than %d locks are left out", l.LeftOut)
	case l.LeftOut > 0:
		text += fmt.Sprintf("; %d locks are left out", l.LeftOut)
	}
	return text
}

// Print writes looks, until there were options.Count or ctx ends. It returns the error of the last
// look, or of a write. It gives write the time since which looks have failed, zero if the last has
// not.
func Print(ctx context.Context, watcher *Watcher, options Options, write func(look Look, failing time.Time) error) error {
	var failing time.Time
	for looks := 1; ; looks++ {
		within, cancel := context.WithTimeout(ctx, Patience(options.Interval))
		look := watcher.Look(within, options.Pattern)
		cancel()
		switch {
		case look.Err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = look.At
		}
		if err := write(look, failing); err != nil {
			return err
		}
		if looks == options.Count {
			return look.Err
		}
		select {
		case <-time.After(options.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WritePlain writes a look as lines, with an empty line at the end. failing is the time since which
// looks have failed.
func WritePlain(out io.Writer, l Look, by Order, failing time.Time) error {
	if l.Err != nil {
		if _, err := fmt.Fprintf(out, "%s  %s\n", l.At.Format(time.TimeOnly), failure(l.Err, failing, l.At)); err != nil {
			return err
		}
		if len(l.Rows) == 0 {
			_, err := fmt.Fprintln(out)
			return err
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "%s  %s\n", l.At.Format(time.TimeOnly), l.Summary())
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	by.Sort(l.Rows)
	for _, row := range l.Rows {
		fmt.Fprintln(w, strings.Join(row.cells(), "\t"))
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// failure returns the text about looks that fail since a time.
func failure(err error, since, now time.Time) string {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "rlock: ")), " ")
	return fmt.Sprintf("failing since %s (%v): %s", since.Format(time.TimeOnly), now.Sub(since).Round(time.Second), printable(text))
}

// printable removes control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// A jsonLook is the JSON form of a look.
type jsonLook struct {
	Time         time.Time  `json:"time"`
	TookMS       int64      `json:"took_ms"`
	Held         int        `json:"held"`
	Waiting      int        `json:"waiting"`
	NewPerSecond float64    `json:"new_per_second"`
	LeftOut      int        `json:"left_out"`
	More         bool       `json:"more,omitempty"` // left_out is a lower bound
	Error        string     `json:"error,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	Locks        []jsonRow  `json:"locks"`
}

type jsonRow struct {
	view.Lock
	SeenMS       int64    `json:"seen_ms"`
	NewPerSecond *float64 `json:"new_per_second,omitempty"`
}

// WriteJSON writes a look as one line.
func WriteJSON(out io.Writer, l Look, by Order, failing time.Time) error {
	t := l.Totals()
	look := jsonLook{
		Time: l.At, TookMS: l.Took.Milliseconds(), Held: t.Held, Waiting: t.Waiters, NewPerSecond: t.Rate,
		LeftOut: l.LeftOut, More: l.More, Locks: make([]jsonRow, 0, len(l.Rows)),
	}
	if l.Err != nil {
		look.Error, look.FailingSince = l.Err.Error(), &failing
	}
	by.Sort(l.Rows)
	for _, row := range l.Rows {
		r := jsonRow{Lock: view.LockOf(row.Lock), SeenMS: row.Seen.Milliseconds()}
		if row.Rate >= 0 {
			r.NewPerSecond = &row.Rate
		}
		look.Locks = append(look.Locks, r)
	}
	return json.NewEncoder(out).Encode(look)
}
