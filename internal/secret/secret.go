// Package secret removes user names from the messages of Redis, so that neither errors nor
// logs show them.
package secret

import "regexp"

// user matches the place where Redis 7.2 names the user that it refuses.
var user = regexp.MustCompile(`User \S+ has`)

// HideUser returns the message of Redis without the name of the user.
func HideUser(message string) string { return user.ReplaceAllString(message, "the user has") }
