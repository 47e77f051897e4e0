package diag

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A fake is locks that are no locks.
type fake struct {
	mu    sync.Mutex // protects following
	views []terms.View
	looks int
	lists int // looks for a list of all

	located bool          // calls were asked where they were made
	takes   time.Duration // that a look takes
}

func (f *fake) Look(look terms.Look, yield func(*terms.View)) {
	f.mu.Lock()
	f.looks++
	if look.Holds {
		f.lists++
	}
	takes, views := f.takes, f.views
	f.located = f.located || len(views) > 0 && !look.Locate.IsZero()
	f.mu.Unlock()
	time.Sleep(takes)
	for i := range views {
		v := views[i]
		if !look.Waits {
			v.Waits = nil
		}
		if len(v.Levels) > 0 {
			v.Tenure, v.Holder = "tenure:", v.Levels[0]
		}
		yield(&v)
	}
}

// set changes the locks.
func (f *fake) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// start is when the uses of these tests begin.
var start = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func owner(id uint64) terms.Owner { return terms.Owner{ID: id} }

// far is later than any time here.
var far = time.Now().Add(time.Hour)

// plain returns a plain lock that the owner has held since then, and for which these wait.
func plain(name string, holder uint64, since int, waiters ...uint64) terms.View {
	v := terms.View{Name: name, Kind: terms.KindPlain, ReadKind: terms.KindRead, ValidUntil: far}
	if holder != 0 {
		v.Levels = []terms.Level{{Owner: owner(holder), First: true, Since: at(since)}}
	}
	for _, w := range waiters {
		v.Waits = append(v.Waits, terms.Wait{Owner: owner(w), Since: at(since + 1)})
	}
	return v
}

// text writes uses, one a line.
func text(uses []Use) (lines []string) {
	for _, u := range uses {
		line := fmt.Sprintf("%s %s %d", u.Name, u.Kind, u.Owner)
		switch {
		case u.Waits:
			line += " waits"
		default:
			line += fmt.Sprintf(" x%d", u.Depth)
		}
		if u.PartOf != "" {
			line += " for " + u.PartOf
		}
		lines = append(lines, line)
	}
	return lines
}
