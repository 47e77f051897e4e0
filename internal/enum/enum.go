// Package enum names the values of enums: types with a block of constants that iota counts.
//
//	func (s state) String() string { return enum.Name(s, "state", "idle", "busy") }
//
// The names are those of the constants. Package enumcheck holds the two against each other, for tests.
package enum

import "strconv"

// Name returns the name of a value of the type "of", whose values from zero on have these names. A value that has none is named
// by its number, as "state(7)": so a panic that names it says what it is. Name allocates nothing for a value with a name.
func Name[E ~int | ~uint8](v E, of string, names ...string) string {
	if v >= 0 && int(v) < len(names) {
		return names[v]
	}
	return of + "(" + strconv.Itoa(int(v)) + ")"
}
