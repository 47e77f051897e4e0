package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// ReadFiles returns the events of all files together, in the order of their times.
func ReadFiles(paths ...string) ([]Event, error) {
	var events []Event
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		read, err := Read(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("history: %s: %w", path, err)
		}
		events = append(events, read...)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}

// Read returns the events that one Recorder wrote, in order. A last line without its end is
// ignored: its writer was killed.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return nil, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
}
