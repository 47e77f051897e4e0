package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The names of a run's results in its folder.
const (
	dataFile = "results.json"
	textFile = "results.md"
)

// Save writes the results of a run into a folder, and makes it if need be: results.json has the data, and results.md the
// text.
func Save(folder string, data any, text string) error {
	raw, err := json.MarshalIndent(data, "", "\t")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, dataFile), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, textFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Load reads the data that Save wrote into a folder.
func Load(folder string, data any) error {
	raw, err := os.ReadFile(filepath.Join(folder, dataFile))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := json.Unmarshal(raw, data); err != nil {
		return fmt.Errorf("report: %s in %s: %w", dataFile, folder, err)
	}
	return nil
}
