package driver

func init() { CheckRules() }
