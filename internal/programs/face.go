package programs

import (
	"errors"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/go-rlock/rlock/rlock"
)

// A Face counts calls by name, as "rlock.Lock.Acquire", pairs of options of one call, settings that
// were set, and values that callers have seen.
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

// on returns the function, and counts it by its name: on(face, hold.Valid)() is hold.Valid().
func on[F any](f *Face, function F) F {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	f.call(decorations.Replace(name[strings.LastIndexByte(name, '/')+1:]))
	return function
}

// decorations are what the runtime adds to the name of a method, of a method value, and of a
// function with type parameters.
var decorations = strings.NewReplacer("(*", "", ")", "", "-fm", "", "[...]", "")

// error reports whether err is the error of that name, and counts it.
func (f *Face) error(err error, name string, is error) bool {
	if !errors.Is(err, is) {
		return false
	}
	f.call("error " + name)
	return true
}

func (f *Face) pairs(with []Choice) {
	for i, a := range with {
		for _, b := range with[i+1:] {
			f.call(a.Name + " and " + b.Name)
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
