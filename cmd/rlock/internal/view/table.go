package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// Summary names the holders of a lock in a few words.
func Summary(i inspect.Lock) string {
	if i.HolderCount == 0 {
		return fmt.Sprintf("%s is free, and %d wait for it", Printable(i.Name), i.Waiting)
	}
	held := "held by "
	if isPassed(i) {
		held = ""
	}
	return fmt.Sprintf("%s is %s%s, and %d wait for it", Printable(i.Name), held, holders(i), i.Waiting)
}

// A Table has a line for each lock. Call [Table.Flush] at the end.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table with its head.
func NewTable(w io.Writer) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	fmt.Fprintln(t.w, "NAME\tKIND\tHOLDER\tDEPTH\tLEASE\tWAITING")
	return t
}

// Add adds a line.
func (t *Table) Add(i inspect.Lock) {
	c := CellsOf(i)
	fmt.Fprintf(t.w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Kind, c.Holder, c.Depth, c.Lease, c.Waiting)
}

// Cells are the cells of a lock in a table. They are safe for a terminal.
type Cells struct{ Name, Kind, Holder, Depth, Lease, Waiting string }

// CellsOf returns the cells of a lock.
func CellsOf(i inspect.Lock) Cells {
	waiting := strconv.Itoa(i.Waiting)
	if i.Foreign > 0 {
		waiting += fmt.Sprintf(" + %d of Redisson", i.Foreign)
	}
	return Cells{Printable(i.Name), i.KindName(), holders(i), depth(i), lease(i), waiting}
}

// Flush writes the table.
func (t *Table) Flush() error { return t.w.Flush() }

// WriteLock writes the whole inspection of one lock.
func WriteLock(out io.Writer, i inspect.Lock) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "Name:\t%s\n", Printable(i.Name))
	if i.Kind != inspect.KindUnknown {
		fmt.Fprintf(w, "Kind:\t%s\n", i.KindName())
	}
	switch {
	case i.HolderCount == 0:
		fmt.Fprintf(w, "State:\tfree\n")
	case i.Lease < 0:
		fmt.Fprintf(w, "State:\theld; its key does not expire\n")
	case i.Kind == rlock.KindSemaphore:
		fmt.Fprintf(w, "State:\tpermits held: %d; the longest lease ends in %s unless it is renewed\n", permits(i), Rounded(i.Lease))
	case isPassed(i):
		fmt.Fprintf(w, "State:\twithout a holder: passed on, or held for its least time; the lease ends in %s unless it is resumed\n", Rounded(i.Lease))
	default:
		fmt.Fprintf(w, "State:\theld; the lease ends in %s unless it is renewed\n", Rounded(i.Lease))
	}
	if i.Token > 0 {
		fmt.Fprintf(w, "Token:\t%d is the last fencing token reserved\n", i.Token)
	}
	fmt.Fprintf(w, "Waiting:\t%s\n", waiting(i))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(i.Holders) > 0 {
		fmt.Fprintf(w, "\nHOLDER\tMODE\tDEPTH\tLEASE\tADDRESS\tOWNER\n")
		for _, h := range i.Holders {
			fmt.Fprintf(w, "%s%s\t%s\t%d\t%s\t%s\t%s\n", Holder(h), noted(h.Note, h.Since, h.Waited), permitted(i, h.Shared, h.Permits), h.Count, Rounded(h.Lease), addr(h.Process), Printable(h.Owner))
		}
		more(w, i.HolderCount-len(i.Holders))
	}
	if len(i.Queue) > 0 {
		fmt.Fprintf(w, "\nWAITER\tMODE\tWAKES\tADDRESS\tTICKET\n")
		for _, q := range i.Queue {
			wakes := "by message"
			switch {
			case q.Foreign:
				fmt.Fprintf(w, "a turn for clients of Redisson\t\t\t\t\n")
				continue
			case q.Polls:
				wakes = "by polling"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", Waiter(q), permitted(i, q.Shared, q.Permits), wakes, addr(q.Process), Printable(q.Owner))
		}
		more(w, i.Waiting-len(i.Queue))
	}
	if i.Unresolved != nil {
		fmt.Fprintf(w, "\nThe processes are not known: %v\n", i.Unresolved)
	}
	return w.Flush()
}

// inLine returns the line and the note of a waiter, "" for neither.
func inLine(q inspect.Waiter) string {
	switch {
	case q.Line == "":
		return q.Note
	case q.Note == "":
		return "line " + q.Line
	}
	return "line " + q.Line + ", " + q.Note
}

// noted returns what a holder or a waiter says of itself behind its name, "" for nothing. calls
// says that since is when its call began.
func noted(note string, since time.Time, calls bool) string {
	if since.IsZero() {
		return ""
	}
	ago := Rounded(max(time.Since(since), 0))
	if calls {
		ago = "called " + ago + " ago"
	} else {
		ago = "for " + ago
	}
	if note == "" {
		return " (" + ago + ")"
	}
	return " (" + Printable(note) + ", " + ago + ")"
}

// brief returns the beginning of a note that is long, for a line about a lock.
func brief(note string) string {
	const most = 60
	if text := []rune(note); len(text) > most {
		return string(text[:most-3]) + "..."
	}
	return note
}

// Waiter names a waiter, with what it says of itself.
func Waiter(q inspect.Waiter) string {
	return Owner(q.Owner, q.Process, false) + noted(inLine(q), q.Since, true)
}

func more(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "... and %d more\n", n)
	}
}

func waiting(i inspect.Lock) string {
	text := fmt.Sprintf("%d of rlock", i.Waiting)
	if i.Foreign >= 0 {
		return fmt.Sprintf("%s, %d of Redisson", text, i.Foreign)
	}
	return text
}

// holders names the holder, or counts them. It says how many permits of a semaphore they have if
// one has several.
func holders(i inspect.Lock) (text string) {
	switch len(i.Holders) {
	case 0:
		return "-"
	case 1:
		h := i.Holders[0]
		text = Holder(h) + noted(brief(h.Note), h.Since, h.Waited)
	default:
		text = fmt.Sprintf("%d holders", i.HolderCount)
	}
	if n := permits(i); i.Kind == rlock.KindSemaphore && n > i.HolderCount && len(i.Holders) == i.HolderCount {
		text += fmt.Sprintf(" (%d permits)", n)
	}
	return text
}

func depth(i inspect.Lock) string {
	if len(i.Holders) != 1 {
		return "-"
	}
	return strconv.FormatInt(i.Holders[0].Count, 10)
}

func lease(i inspect.Lock) string {
	if i.HolderCount == 0 {
		return "-"
	}
	return Rounded(i.Lease)
}

// isPassed reports whether the lock waits to be resumed.
func isPassed(i inspect.Lock) bool { return len(i.Holders) == 1 && i.Holders[0].Passed }

// Holder names a holder. For a lock that was passed on, or that stays for its least time, it
// returns the time until which there is none.
func Holder(h inspect.Holder) string {
	if h.Passed {
		return "without a holder until " + time.Now().Add(h.Lease).Format(time.TimeOnly)
	}
	return Owner(h.Owner, h.Process, h.Foreign)
}

// Owner names an owner by its process, or by the known part of its identity.
func Owner(owner string, process *inspect.Process, foreign bool) string {
	switch {
	case process != nil:
		return Printable(Process(process))
	case foreign:
		return "Redisson " + Printable(short(owner))
	}
	return "client " + Printable(short(owner))
}

// Process returns "program@host[pid]", and "" for nil.
func Process(p *inspect.Process) string {
	if p == nil {
		return ""
	}
	return p.String()
}

func addr(process *inspect.Process) string {
	if process == nil {
		return "-"
	}
	return process.Addr
}

// short returns the first group of an owner's UUID.
func short(owner string) string {
	first, _, _ := strings.Cut(owner, "-")
	return first
}

// Printable returns a name that is safe to write to a terminal: quoted if it has control
// characters, or characters that would break the table.
func Printable(name string) string {
	quoted := strconv.Quote(name)
	if quoted[1:len(quoted)-1] == name && name != "" {
		return name
	}
	return quoted
}
