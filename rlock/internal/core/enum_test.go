package core

import (
	"testing"

	"github.com/go-rlock/rlock/internal/enum/enumcheck"
)

// Each state has the name of its constant.
func TestEachStateHasAName(t *testing.T) {
	faults, err := enumcheck.Names(".", map[string]func(n int) string{
		"Want":        enumcheck.Name[Want],
		"Place":       enumcheck.Name[Place],
		"Mode":        enumcheck.Name[Mode],
		"Op":          enumcheck.Name[Op],
		"Fault":       enumcheck.Name[Fault],
		"Found":       enumcheck.Name[Found],
		"MessageKind": enumcheck.Name[MessageKind],
		"verdict":     enumcheck.Name[verdict],
		"change":      enumcheck.Name[change],
		"news":        enumcheck.Name[news],
		"question":    enumcheck.Name[question],
		"Purpose":     enumcheck.Name[Purpose],
		"Todo":        enumcheck.Name[Todo],
		"attempt":     enumcheck.Name[attempt],
		"Outcome":     enumcheck.Name[Outcome],
		"Way":         enumcheck.Name[Way],
		"Cause":       enumcheck.Name[Cause],
		"Extension":   enumcheck.Name[Extension],
		"PartResult":  enumcheck.Name[PartResult],
		"EffectKind":  enumcheck.Name[EffectKind],
		"hearing":     enumcheck.Name[hearing],
		"abroadNews":  enumcheck.Name[abroadNews],
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}
