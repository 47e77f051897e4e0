package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A Synchronizer is the JSON form of one of Redisson's synchronizers.
type Synchronizer struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind,omitempty"` // Redisson's name of the kind: "RSemaphore"
	Number     *int64   `json:"number,omitempty"`
	LeaseMS    *int64   `json:"lease_ms,omitempty"` // the time until the number expires; -1 without an end
	TakenCount int      `json:"taken_count"`
	Taken      []Permit `json:"taken"`
	Listening  *int     `json:"listening,omitempty"`
}

// A Permit is a permit that is taken.
type Permit struct {
	ID      string `json:"id"`
	LeaseMS int64  `json:"lease_ms"` // the rest of the lease; -1 without an end
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Addr    string `json:"addr,omitempty"`
}

// WriteSynchronizerJSON writes a synchronizer as one line.
func WriteSynchronizerJSON(w io.Writer, s redisson.State) error {
	form := Synchronizer{Name: s.Name, Kind: string(s.Kind), TakenCount: s.TakenCount, Taken: make([]Permit, 0, len(s.Taken))}
	if s.Present {
		ms := leaseMS(s.Lease)
		form.Number, form.LeaseMS = &s.Number, &ms
	}
	if s.Listening >= 0 {
		form.Listening = &s.Listening
	}
	for _, t := range s.Taken {
		p := Permit{ID: t.ID, LeaseMS: leaseMS(t.Lease)}
		if t.Process != nil {
			p.Program, p.Host, p.PID, p.Addr = t.Process.Program, t.Process.Host, t.Process.PID, t.Process.Addr
		}
		form.Taken = append(form.Taken, p)
	}
	return json.NewEncoder(w).Encode(form)
}

func leaseMS(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// WriteSynchronizers writes a table with a line for each synchronizer, and nothing if there are
// none.
func WriteSynchronizers(out io.Writer, all []redisson.State) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\nOF REDISSON\tKIND\tFREE\tTAKEN\tCOUNT\tLISTENING")
	for _, s := range all {
		free, taken, count := "-", "-", number(s)
		if s.Kind != redisson.KindCountDownLatch {
			free, count = count, "-"
		}
		if s.Kind == redisson.KindPermitSemaphore {
			taken = strconv.Itoa(s.TakenCount)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", Printable(s.Name), s.Kind, free, taken, count, listening(s))
	}
	return w.Flush()
}

func number(s redisson.State) string {
	if !s.Present {
		return "0"
	}
	return strconv.FormatInt(s.Number, 10)
}

func listening(s redisson.State) string {
	if s.Listening < 0 {
		return "-"
	}
	return strconv.Itoa(s.Listening)
}

// WriteSynchronizer writes all that is known of one synchronizer.
func WriteSynchronizer(out io.Writer, s redisson.State) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "Name:\t%s\n", Printable(s.Name))
	kind, what, rest := string(s.Kind), "Permits:", ""
	switch s.Kind {
	case redisson.KindCountDownLatch:
		what = "Count:"
	case redisson.KindPermitSemaphore:
		rest = fmt.Sprintf(" free, %d taken", s.TakenCount)
	case redisson.KindSemaphore:
		rest = " free; the others have no known holders"
	default:
		kind, what, rest = "a plain number, which no client listens for: an RSemaphore, an RCountDownLatch, or other data", "Number:", " (free permits, or the count)"
	}
	fmt.Fprintf(w, "Kind:\t%s\n", kind)
	fmt.Fprintf(w, "%s\t%s%s\n", what, number(s), rest)
	if s.Present && s.Lease != rlock.NoExpiry {
		fmt.Fprintf(w, "Expires:\t%s from now\n", Rounded(s.Lease))
	}
	fmt.Fprintf(w, "Listening:\t%s\n", listening(s))
	if err := w.Flush(); err != nil || len(s.Taken) == 0 {
		return err
	}
	fmt.Fprintf(w, "\nPERMIT\tLEASE\tHOLDER\tADDRESS\n")
	for _, t := range s.Taken {
		holder := "not known"
		if t.Process != nil {
			holder = Printable(Process(t.Process))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.ID, Rounded(t.Lease), holder, addr(t.Process))
	}
	more(w, s.TakenCount-len(s.Taken))
	return w.Flush()
}
