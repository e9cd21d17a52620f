def evaluate(inputs, outputs, trace):
    text = str(outputs)
    refused = "cannot help" in text.lower()
    return {"success": not refused, "reason": "refused the customer" if refused else "answered"}
