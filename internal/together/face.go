package together

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-rlock/rlock/rlock"
)

// A Face counts calls by name, as "rlock.Lock.Acquire"; which pairs of options a call had; which settings were
// set; and which values callers have seen.
type Face struct {
	mu    sync.Mutex
	count map[string]int
}

func NewFace() *Face { return &Face{count: make(map[string]int)} }

func (f *Face) call(name string) {
	f.mu.Lock()
	f.count[name]++
	f.mu.Unlock()
}

// error counts an error, if it is that of the name.
func (f *Face) error(err error, name string, is error) {
	if errors.Is(err, is) {
		f.call("error " + name)
	}
}

// Pair is the name of two options that a call has both.
func Pair(a, b string) string {
	if a > b {
		a, b = b, a
	}
	return a + " and " + b
}

func (f *Face) pairs(with []Choice) {
	for i, a := range with {
		for _, b := range with[i+1:] {
			f.call(Pair(a.Name, b.Name))
		}
	}
}

// config counts the fields that are set.
func (f *Face) config(c *rlock.Config) {
	f.fields("rlock.Config", *c)
	f.fields("rlock.Advanced", c.Advanced)
}

func (f *Face) fields(name string, config any) {
	v := reflect.ValueOf(config)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			f.call(name + "." + v.Type().Field(i).Name)
		}
	}
}

// Counts returns how often each name was counted.
func (f *Face) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.count)
}

// Names returns the counted names, sorted.
func (f *Face) Names() []string { return slices.Sorted(maps.Keys(f.Counts())) }
