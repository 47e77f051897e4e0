package rlock

import (
	"fmt"
	"runtime"
	"strings"
)

// A Place is where in the code a lock was taken. The zero Place is not known.
type Place struct {
	Function string // with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Place.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Function)
}

const (
	// ownCode is how the names of this package's functions begin.
	ownCode = "github.com/go-rlock/rlock/rlock."
	// ownDepth is how many functions of this package a call for a lock goes through at most.
	ownDepth = 16
)

// place returns where the call comes from into this package, nil if places are not
// recorded. A goroutine that this package has started comes from nowhere.
func (c *Client) place() *Place {
	if !c.config.RecordPlaces {
		return nil
	}
	var stack [ownDepth]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack[:])])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, ownCode) && !strings.HasPrefix(frame.Function, "runtime.") && frame.Function != "" {
			return &Place{frame.Function, frame.File, frame.Line}
		}
		if !more {
			return nil
		}
	}
}

// known returns the place as it is shown.
func (p *Place) known() Place {
	if p == nil {
		return Place{}
	}
	return *p
}
