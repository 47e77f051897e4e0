package rlockweb

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

const (
	rowsPerPage = 100
	longestID   = 1000 // the length of the longest name that an id has whole: proxies limit a URL
	longestText = 100  // the number of characters of a name, or a note, that are shown
)

// A query is what a viewer has asked for.
type query struct {
	Pattern string
	Sort    string // a key of orders
	Page    int    // from 1
	Java    bool   // Redisson's synchronizers
	ID      string // of a lock, or ""
	Lock    string // its name; "" if the id does not have it
	match   func(name string) bool
}

func queryOf(r *http.Request) *query {
	values := r.URL.Query()
	q := &query{Pattern: values.Get("q"), Sort: values.Get("s"), Java: values.Has("java"), ID: r.FormValue("l")}
	q.Page, _ = strconv.Atoi(values.Get("p"))
	q.Page = max(q.Page, 1)
	if orders[q.Sort] == nil {
		q.Sort = "name"
	}
	if name, err := base64.RawURLEncoding.DecodeString(q.ID); err == nil {
		q.Lock = string(name)
	}
	q.match = matcher(q.Pattern)
	return q
}

// With returns the parameters of this query with another value of one of them.
func (q *query) With(key string, value any) string {
	values := url.Values{"q": {q.Pattern}, "s": {q.Sort}, "p": {strconv.Itoa(q.Page)}}
	if q.Java {
		values.Set("java", "")
	}
	if q.ID != "" {
		values = url.Values{"l": {q.ID}}
	}
	if key != "" {
		values.Set("p", "1")
		values.Set(key, fmt.Sprint(value))
	}
	return "?" + values.Encode()
}

// An order is the head of a column by which the list can be sorted.
type order struct{ Text, Link, Is string }

// Order returns the head of the column for that key of orders.
func (q *query) Order(key, text string) order {
	o := order{Text: text, Link: q.With("s", key)}
	if key == q.Sort {
		o.Is = "descending"
		if key == "name" || key == "since" {
			o.Is = "ascending"
		}
	}
	return o
}

// idOf returns the text that stands for a name in a URL.
func idOf(name string) string {
	if len(name) <= longestID {
		return base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return "~" + hashOf(name)
}

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// printable returns a text for people: quoted if it has other than printable characters, and cut if
// it is long.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted[1:len(quoted)-1] != strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) || text == "" {
		text = quoted
	}
	if characters := []rune(text); len(characters) > longestText {
		return fmt.Sprintf("%s… (%d characters)", string(characters[:longestText]), len(characters))
	}
	return text
}

// matcher returns whether names match a pattern of Redis' KEYS. A pattern without any of its special
// characters, or with an error, is a part of the name.
func matcher(pattern string) func(string) bool {
	flat := strings.NewReplacer("/", "\x00") // a slash is nothing special
	glob := flat.Replace(pattern)
	if _, err := path.Match(glob, ""); err != nil || !strings.ContainsAny(pattern, `*?[\`) {
		return func(name string) bool { return strings.Contains(name, pattern) }
	}
	return func(name string) bool {
		matches, _ := path.Match(glob, flat.Replace(name))
		return matches
	}
}

// orders are the orders of the list. Equal rows are sorted by name.
var orders = map[string]func(a, b *record) int{
	"name":    func(*record, *record) int { return 0 },
	"waiting": func(a, b *record) int { return cmp.Compare(b.Waiters(), a.Waiters()) },
	"since":   func(a, b *record) int { return a.since().Compare(b.since()) },
	"turns":   func(a, b *record) int { return cmp.Compare(sum(b.turns), sum(a.turns)) },
}

// Waiters returns the number of waiters, clients of Redisson included.
func (r *record) Waiters() int { return r.Waiting + max(r.Foreign, 0) }

// since returns the time since when the first holder has the lock, as far as it is known; a time to
// come if it is free.
func (r *record) since() time.Time {
	if len(r.Holders) == 0 {
		return r.at.Add(time.Hour)
	}
	since, _ := r.held(r.Holders[0])
	return since
}

// held returns the time since when a holder has the lock: as the holder says, or, and least is true
// then, when it was first seen.
func (r *record) held(h inspect.Holder) (since time.Time, least bool) {
	if h.Since.IsZero() || h.Waited {
		return r.first[h.Owner], true
	}
	return h.Since, false
}

// A list is a page of the list.
type list struct {
	*query
	Page    int // that of the query, or the last one
	Rows    []*record
	Pages   int
	Held    int
	Waiting int
	Pending int // the number of names that were not looked at yet
}

// Before and After return the links to the pages beside this one, "" for none.
func (l *list) Before() string { return l.beside(l.Page - 1) }
func (l *list) After() string  { return l.beside(l.Page + 1) }

func (l *list) beside(page int) string {
	if page < 1 || page > l.Pages {
		return ""
	}
	return l.With("p", page)
}

// list returns the rows that a viewer sees. They are copies, which do not change.
func (w *watcher) list(v *viewer) *list {
	l := &list{query: v.query, Pending: len(w.fresh)}
	var all []*record
	for name, r := range w.records {
		if v.match(name) {
			all = append(all, r)
			l.Waiting += r.Waiters()
			l.Held += min(r.HolderCount, 1)
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Or(orders[v.Sort](a, b), strings.Compare(a.Name, b.Name)) })
	l.Pages = max((len(all)+rowsPerPage-1)/rowsPerPage, 1)
	l.Page = min(v.Page, l.Pages)
	all = all[(l.Page-1)*rowsPerPage : min(l.Page*rowsPerPage, len(all))]
	v.visible = v.visible[:0:0]
	for _, r := range all {
		v.visible = append(v.visible, r.Name)
		row := *r
		l.Rows = append(l.Rows, &row)
	}
	return l
}

// A change is what a page has to change, by the ids of its elements.
type change struct {
	Now  int64             `json:"now"`           // the clock of this program, in milliseconds
	HTML map[string]string `json:"html"`          // the new contents of elements
	Rows [][2]string       `json:"rows,omitzero"` // the ids of all rows, with the new text of those that have changed
}

// changes returns the difference between what was sent and what the viewer is to see.
func (p *page) changes(v *viewer, sent map[string]string) change {
	c := change{Now: time.Now().UnixMilli(), HTML: make(map[string]string)}
	parts := make(map[string]any)
	w := p.watcher
	w.mu.Lock()
	parts["banner"] = map[string]any{"Error": w.failed, "Since": w.failing, "Looked": !w.at.IsZero()}
	var rows []*record
	switch {
	case v.Lock != "":
		row := record{}
		if r := w.records[v.Lock]; r != nil {
			row = *r
		}
		row.other = w.others[v.Lock]
		row.Name = v.Lock
		parts["lock"] = map[string]any{"Lock": &row, "Unlock": p.Unlock, "Opened": w.began}
	case v.Java:
		parts["java"] = map[string]any{"All": w.java, "Error": w.javaFail, "Read": !w.javaAt.IsZero()}
	default:
		l := w.list(v)
		parts["summary"], parts["pager"], rows = l, l, l.Rows
		c.Rows = make([][2]string, 0, len(rows))
	}
	w.mu.Unlock()
	if v.Lock != "" {
		parts["findings"] = p.examined()
	}
	render := func(id, name string, data any) (text string, changed bool) {
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, name, data); err != nil {
			out.WriteString("This part cannot be shown.")
		}
		before, known := sent[id]
		sent[id] = out.String()
		return sent[id], !known || before != sent[id]
	}
	for id, data := range parts {
		if text, changed := render(id, id, data); changed {
			c.HTML[id] = text
		}
	}
	for _, r := range rows {
		row := [2]string{r.DOM()}
		if text, changed := render(r.DOM(), "row", r); changed {
			row[1] = text
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// The following are for the templates.

// DOM returns the id of the row.
func (r *record) DOM() string { return "r" + hashOf(r.Name)[:16] }

// HolderName names the holder, or counts them.
func (r *record) HolderName() string {
	text, permits := fmt.Sprintf("%d holders", r.HolderCount), 0
	switch len(r.Holders) {
	case 0:
		return "free"
	case 1:
		text = holderName(r.Holders[0])
	}
	for _, h := range r.Holders {
		permits += h.Permits
	}
	if permits > len(r.Holders) {
		text += fmt.Sprintf(" (%d permits)", permits)
	}
	return text
}

// A moment is a time in milliseconds, with the span since then; Least says that the span may be
// longer.
type moment struct {
	At    int64
	Least bool
}

// Held and Waits return since when a holder holds and a waiter waits.
func (r *record) Held(h inspect.Holder) moment {
	since, least := r.held(h)
	return moment{since.UnixMilli(), least}
}

func (r *record) Waits(w inspect.Waiter) moment {
	if w.Since.IsZero() {
		return moment{r.first[w.Owner].UnixMilli(), true}
	}
	return moment{w.Since.UnixMilli(), false}
}

// Until returns the end of the lease in milliseconds, 0 for none.
func (r *record) Until() int64 {
	if r.HolderCount == 0 || r.Lease == rlock.NoExpiry {
		return 0
	}
	return r.until.UnixMilli()
}

// End returns the end of a holder's lease in milliseconds, 0 for none.
func (r *record) End(h inspect.Holder) int64 {
	if r.Kind == rlock.KindSemaphore {
		return r.at.Add(h.Lease).UnixMilli()
	}
	return r.Until()
}

// A lease is a bar that moves: its end, and its length as far as it was seen, in milliseconds.
type lease struct{ Until, Length int64 }

// LeaseOf returns the bar of a lease with that end.
func (r *record) LeaseOf(until int64) lease { return lease{until, r.length.Milliseconds()} }

// State says in a few words whether the lock is held.
func (r *record) State() string {
	switch {
	case r.other:
		return "No lock: the key has other data"
	case r.at.IsZero():
		return "Not looked at yet"
	case r.HolderCount == 0:
		return "Free"
	case len(r.Holders) == 1 && r.Holders[0].Passed:
		return "Passed on, or held for its least time"
	}
	return "Held"
}

// MoreHolders and MoreWaiters count those beyond the limit.
func (r *record) MoreHolders() int { return r.HolderCount - len(r.Holders) }
func (r *record) MoreWaiters() int { return r.Waiting - len(r.Queue) }

// Mode returns how an owner has the lock, or wants it.
func (r *record) Mode(shared bool, permits int) string {
	switch {
	case permits > 1:
		return fmt.Sprintf("%d permits", permits)
	case r.Kind == rlock.KindSemaphore:
		return "permit"
	case shared:
		return "shared"
	}
	return "exclusive"
}

// Busy reports whether the curves show anything.
func (r *record) Busy() bool { return sum(r.turns)+sum(r.waits) > 0 }

// Rate returns the new holders a second, "" for none.
func (r *record) Rate() string {
	if turns := sum(r.turns); turns > 0 {
		return fmt.Sprintf("%.1f/s", float64(turns)/float64(len(r.turns)-1))
	}
	return ""
}

// Bars is the path of the new holders at each look.
func (r *record) Bars() string {
	var path strings.Builder
	top := max(slices.Max(r.turns), 1)
	for at, n := range r.turns {
		if n > 0 {
			fmt.Fprintf(&path, "M%d 16v-%dh1v%dz", span-len(r.turns)+at, max(16*n/top, 2), max(16*n/top, 2))
		}
	}
	return path.String()
}

// Curve has the points of the waiters at each look.
func (r *record) Curve() string {
	var points strings.Builder
	top := max(slices.Max(r.waits), 1)
	for at, n := range r.waits {
		fmt.Fprintf(&points, "%d,%.1f ", span-len(r.waits)+at, 15-14*float64(n)/float64(top))
	}
	return points.String()
}

// holderName names a holder.
func holderName(h inspect.Holder) string {
	if h.Passed {
		return "without a holder"
	}
	return ownerName(h.Owner, h.Process, h.Foreign)
}

func waiterName(w inspect.Waiter) string { return ownerName(w.Owner, w.Process, w.Foreign) }

// ownerName names an owner by its process, or by the known part of its identity.
func ownerName(owner string, process *inspect.Process, foreign bool) string {
	switch {
	case process != nil:
		return printable(process.String())
	case foreign && owner == "":
		return "clients of Redisson"
	case foreign:
		return "Redisson " + printable(short(owner))
	}
	return "client " + printable(short(owner))
}

// short returns the first group of an owner's UUID.
func short(owner string) string {
	first, _, _ := strings.Cut(owner, "-")
	return first
}
