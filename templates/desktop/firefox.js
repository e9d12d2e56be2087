// Firefox begins with an empty page, and asks nothing.
pref("browser.aboutwelcome.enabled", false);
pref("browser.shell.checkDefaultBrowser", false);
pref("browser.startup.homepage", "about:blank");
pref("browser.startup.homepage_override.mstone", "ignore");
pref("datareporting.policy.dataSubmissionEnabled", false);
pref("security.sandbox.warn_unprivileged_namespaces", false);
pref("startup.homepage_welcome_url", "");
pref("termsofuse.acceptedVersion", 999);
pref("toolkit.telemetry.reportingpolicy.firstRun", false);
