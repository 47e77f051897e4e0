// Package view shows inspected locks: as tables for people, and as JSON for programs.
//
// In JSON times are in milliseconds, and a field that is not known is absent. Fields are added in
// later versions, and none is renamed.
package view
