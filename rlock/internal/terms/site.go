package terms

import (
	"fmt"
	"runtime"
	"strings"
)

// A Site is where in the code a lock was taken. The zero Site is not known.
type Site struct {
	Function string // with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Site.
func (p Site) String() string {
	if p == (Site{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Function)
}

const (
	// publicCode and internalCode are how the names of rlock's functions begin.
	publicCode, internalCode = "github.com/go-rlock/rlock/rlock.", "github.com/go-rlock/rlock/rlock/internal/"
	// ownDepth is how many functions of rlock a call for a lock goes through at most.
	ownDepth = 16
)

// Here returns where the call comes from into rlock, nil in a goroutine that rlock has started.
func Here() *Site {
	var stack [ownDepth]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !isOwn(frame.Function) {
			return &Site{Function: frame.Function, File: frame.File, Line: frame.Line}
		}
		if !more {
			return nil
		}
	}
}

func isOwn(function string) bool {
	return strings.HasPrefix(function, publicCode) || strings.HasPrefix(function, internalCode) || strings.HasPrefix(function, "runtime.")
}

// Known returns the site as it is shown.
func Known(p *Site) Site {
	if p == nil {
		return Site{}
	}
	return *p
}
