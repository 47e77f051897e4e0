// Package secret keeps what is nobody's business out of errors and logs.
package secret

import "regexp"

// user is where Redis 7.2 names the user whom it refuses something.
var user = regexp.MustCompile(`User \S+ has`)

// HideUser returns what Redis says, without the name of the user.
func HideUser(message string) string { return user.ReplaceAllString(message, "the user has") }
