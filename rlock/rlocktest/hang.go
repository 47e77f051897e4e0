package rlocktest

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/monitor"
)

// hangTime is more virtual time than most tests need. A test that hangs is over by then, since time
// flies while a client renews or waits.
const hangTime = time.Hour

// HangAfter sets the time, from now on, after which the test counts as one that hangs: then it
// panics, and shows the locks that are held, the calls that wait, and its goroutines. By default
// that is an hour after [NewServer]: a test that lasts longer, in the virtual time of a bubble,
// calls HangAfter first.
func (s *Server) HangAfter(limit time.Duration) { s.guard.Reset(limit) }

// hangs ends the test program.
func (s *Server) hangs(began time.Time) {
	panic(fmt.Sprintf("rlocktest: %s hangs: %v have passed (a longer test calls Server.HangAfter)\n\n%s\n%s",
		s.t.Name(), time.Since(began), s.uses(), goroutines()))
}

// uses returns the locks that the clients hold, and their calls that wait, as text.
func (s *Server) uses() string {
	s.mu.Lock()
	members := slices.Clone(s.clients)
	s.mu.Unlock()
	var text strings.Builder
	for _, waits := range []bool{false, true} {
		for _, m := range members {
			locks, _ := driver.ClientOf(m.Client)
			for _, u := range monitor.Uses(locks, true) {
				if u.Waits != waits {
					continue
				}
				does := "holds"
				if u.Waits {
					does = "waits for"
				}
				who := fmt.Sprintf("owner %d", u.Owner)
				if u.Goroutine != 0 {
					who = fmt.Sprintf("goroutine %d", u.Goroutine)
				}
				fmt.Fprintf(&text, "client %d, %s, %s %q since %v", m.number, who, does, u.Name, time.Since(u.Since).Round(time.Millisecond))
				if site := u.Site.String(); site != "" {
					fmt.Fprintf(&text, ", at %s", site)
				}
				text.WriteByte('\n')
			}
		}
	}
	if text.Len() == 0 {
		return "no client holds a lock or waits for one\n"
	}
	return text.String()
}

// goroutines returns the stacks of all goroutines, those with code of the test or of the tested
// program first.
func goroutines() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	all := strings.Split(strings.TrimSpace(string(stacks)), "\n\n")
	first := slices.DeleteFunc(slices.Clone(all), func(stack string) bool { return !isUsers(stack) })
	others := slices.DeleteFunc(all, isUsers)
	return fmt.Sprintf("%s\n\n%d goroutines of libraries:\n\n%s\n", strings.Join(first, "\n\n"), len(others), strings.Join(others, "\n\n"))
}

// libraries begin the names of functions that are not the user's, beside the functions of the
// standard library.
var libraries = []string{
	"github.com/go-rlock/rlock/internal/", "github.com/go-rlock/rlock/lease.", "github.com/go-rlock/rlock/pubsub.",
	"github.com/go-rlock/rlock/rlock.", "github.com/go-rlock/rlock/rlock/internal/", "github.com/go-rlock/rlock/rlock/rlocktest.",
	"github.com/redis/rueidis", "github.com/alicebob/miniredis/", "github.com/yuin/gopher-lua",
}

// isUsers reports whether the stack of a goroutine has a function that is of no library. A stack is
// a title, and two lines for each function: its name, and its file.
func isUsers(stack string) bool {
	lines := strings.Split(stack, "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		name := strings.TrimPrefix(lines[i], "created by ")
		file := strings.TrimPrefix(lines[i+1], "\t")
		known := isStandard(file) || strings.HasPrefix(file, "_testmain.go") ||
			slices.ContainsFunc(libraries, func(library string) bool { return strings.HasPrefix(name, library) })
		if !known {
			return true
		}
	}
	return false
}

// isStandard reports whether a file is one of the standard library.
func isStandard(file string) bool {
	if goroot != "" {
		return strings.HasPrefix(file, goroot)
	}
	root, _, _ := strings.Cut(file, "/")
	return !strings.Contains(root, ".") && !strings.HasPrefix(file, module+"/")
}

// goroot begins the names of the files of the standard library. It is empty in a program built with
// -trimpath, where a file is named by its import path.
var goroot = func() string {
	function := runtime.FuncForPC(reflect.ValueOf(runtime.GC).Pointer())
	file, _ := function.FileLine(function.Entry())
	root, _, _ := strings.Cut(file, "runtime/")
	return root
}()

// module is the path of the main module, whose first element need not have a dot.
var module = func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
}()
